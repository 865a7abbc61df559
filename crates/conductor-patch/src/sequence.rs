//! A list that can change in the middle without moving all items after the change.
//!
//! A patch of ten thousand boxes has about forty thousand pieces. In one flat vector, each edit
//! would move about a megabyte. The list is therefore divided into blocks, and an insertion or
//! removal moves only the items of one block.

const BLOCK: usize = 256;

#[derive(Clone, Debug)]
pub(crate) struct Sequence<T> {
    blocks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Sequence<T> {
    pub(crate) fn from_vec(items: Vec<T>) -> Self {
        let len = items.len();
        let mut blocks = Vec::with_capacity(len / BLOCK + 1);
        let mut items = items.into_iter();
        loop {
            let block: Vec<T> = items.by_ref().take(BLOCK).collect();
            if block.is_empty() {
                break;
            }
            blocks.push(block);
        }
        Sequence { blocks, len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flatten()
    }

    pub(crate) fn get(&self, mut at: usize) -> Option<&T> {
        for block in &self.blocks {
            if at < block.len() {
                return block.get(at);
            }
            at -= block.len();
        }
        None
    }

    /// Replaces `count` items from `at` by `insert`. Returns the old items, or none when the range
    /// does not exist.
    pub(crate) fn splice(&mut self, at: usize, count: usize, insert: Vec<T>) -> Option<Vec<T>> {
        if at.checked_add(count)? > self.len {
            return None;
        }
        let mut removed = Vec::with_capacity(count);
        let (mut block, mut offset) = (0, at);
        while let Some(found) = self.blocks.get(block)
            && offset > found.len()
        {
            offset -= found.len();
            block += 1;
        }
        if block == self.blocks.len() {
            self.blocks.push(Vec::new());
        }
        let (mut from, mut start) = (block, offset);
        while removed.len() < count {
            let list = self.blocks.get_mut(from)?;
            let end = list.len().min(start + count - removed.len());
            removed.extend(list.drain(start.min(end)..end));
            from += 1;
            start = 0;
        }
        self.len = self.len - count + insert.len();
        let list = self.blocks.get_mut(block)?;
        list.splice(offset..offset, insert);
        if list.len() > 2 * BLOCK {
            let split: Vec<T> = std::mem::take(list);
            let fresh = Sequence::from_vec(split).blocks;
            self.blocks.splice(block..=block, fresh);
        }
        self.blocks.retain(|list| !list.is_empty());
        Some(removed)
    }

    /// Position of the item that `is` accepts. The search starts at `hint`, the last known
    /// position, because edits usually shift an item only a little.
    pub(crate) fn position(&self, hint: usize, is: impl Fn(&T) -> bool) -> Option<usize> {
        for distance in 0..48 {
            for at in [hint.checked_add(distance), hint.checked_sub(distance)].into_iter().flatten() {
                if self.get(at).is_some_and(&is) {
                    return Some(at);
                }
            }
        }
        self.iter().position(is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_like_a_vector(start in 0usize..1500, ops in prop::collection::vec((0usize..2000, 0usize..400, 0usize..700), 1..20)) {
            let mut model: Vec<usize> = (0..start).collect();
            let mut seq = Sequence::from_vec(model.clone());
            for (n, (at, count, insert)) in ops.into_iter().enumerate() {
                let fresh: Vec<usize> = (0..insert).map(|i| n * 10_000 + i).collect();
                let expected = (at + count <= model.len()).then(|| model.splice(at..at + count, fresh.clone()).collect::<Vec<_>>());
                prop_assert_eq!(seq.splice(at, count, fresh), expected);
                prop_assert_eq!(seq.len(), model.len());
                prop_assert!(seq.iter().eq(model.iter()));
                prop_assert_eq!(seq.get(model.len() / 2), model.get(model.len() / 2));
            }
        }
    }
}
