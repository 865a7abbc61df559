//! The output queue: passes whole messages from the engine to the thread that sends them.
//!
//! The queue is a ring buffer of bytes. A message is stored completely, after its length, or not at
//! all, so that the reader always finds the start of the next message. The last quarter of the
//! space is reserved for releases. A message that does not fit is refused as `Busy`. A queued
//! message is never dropped.
//!
//! Not here: the thread that sends the messages, which belongs to the backend.

use super::{SendError, check_message, is_release};

/// Space for 39,000 short messages or 23 SysEx of the largest size, and the reserve for releases.
pub const QUEUE_BYTES: usize = 256 * 1024;

const HEADER: usize = 2;
/// Largest message in bytes, including F0 and F7.
pub const MESSAGE_MAX: usize = super::SYSEX_OUT_MAX + 2;

pub struct QueueSender {
    bytes: rtrb::Producer<u8>,
    reserve: usize,
}

pub struct QueueReceiver {
    bytes: rtrb::Consumer<u8>,
    /// A contiguous copy of the oldest message. In the ring, the message may wrap around the end.
    front: Box<[u8]>,
}

pub fn queue(bytes: usize) -> (QueueSender, QueueReceiver) {
    let (producer, consumer) = rtrb::RingBuffer::new(bytes);
    let front = vec![0; MESSAGE_MAX].into_boxed_slice();
    (QueueSender { bytes: producer, reserve: bytes / 4 }, QueueReceiver { bytes: consumer, front })
}

impl QueueSender {
    pub fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        check_message(message)?;
        if self.bytes.is_abandoned() {
            return Err(SendError::Offline);
        }
        let needed = HEADER + message.len();
        let kept = if is_release(message) { 0 } else { self.reserve };
        if self.bytes.slots() < needed + kept {
            return Err(SendError::Busy);
        }
        let Ok(mut chunk) = self.bytes.write_chunk(needed) else { return Err(SendError::Busy) };
        let header = (message.len() as u16).to_le_bytes();
        let (first, second) = chunk.as_mut_slices();
        let places = first.iter_mut().chain(second);
        places.zip(header.iter().chain(message)).for_each(|(place, byte)| *place = *byte);
        chunk.commit_all();
        Ok(())
    }
}

impl QueueReceiver {
    /// The oldest message. It stays in the queue until [`done`](Self::done). Neither locks nor
    /// allocates.
    pub fn front(&mut self) -> Option<&[u8]> {
        let len = self.front_len()?;
        let chunk = self.bytes.read_chunk(HEADER + len).ok()?;
        let (first, second) = chunk.as_slices();
        let source = first.iter().chain(second).skip(HEADER);
        let front = self.front.get_mut(..len)?;
        front.iter_mut().zip(source).for_each(|(place, byte)| *place = *byte);
        Some(front)
    }

    /// Removes the oldest message.
    pub fn done(&mut self) {
        if let Some(len) = self.front_len()
            && let Ok(chunk) = self.bytes.read_chunk(HEADER + len)
        {
            chunk.commit_all();
        }
    }

    pub fn is_abandoned(&self) -> bool {
        self.bytes.is_abandoned()
    }

    fn front_len(&mut self) -> Option<usize> {
        let chunk = self.bytes.read_chunk(HEADER).ok()?;
        let (first, second) = chunk.as_slices();
        let mut header = first.iter().chain(second).copied();
        Some(usize::from(u16::from_le_bytes([header.next()?, header.next()?])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_quarter_is_for_releases() {
        let (mut sender, mut receiver) = queue(40);
        let on = [0x90, 36, 100];
        let results: Vec<_> = (0..8).map(|_| sender.send(&on)).collect();
        assert_eq!(results.iter().filter(|it| it.is_ok()).count(), 6);
        assert_eq!(sender.send(&[0xB0, 7, 1]), Err(SendError::Busy));
        assert_eq!(sender.send(&[0x80, 36, 0]), Ok(()));
        assert_eq!(sender.send(&[0xB0, 123, 0]), Ok(()));
        assert_eq!(sender.send(&[0x90, 36, 0]), Err(SendError::Busy), "the full queue accepted a message");
        receiver.done();
        assert_eq!(sender.send(&[0x90, 36, 0]), Ok(()));
    }

    #[test]
    fn bad_and_orphaned_messages_are_refused() {
        let (mut sender, receiver) = queue(40);
        assert!(matches!(sender.send(&[1, 2]), Err(SendError::Malformed(_))));
        drop(receiver);
        assert_eq!(sender.send(&[0xF8]), Err(SendError::Offline));
    }

    proptest! {
        #[test]
        fn messages_come_out_whole_in_order_and_a_full_queue_stays_in_step(
            ops in prop::collection::vec(prop_oneof![(0usize..40).prop_map(Some), Just(None)], 0..200)
        ) {
            let (mut sender, mut receiver) = queue(97);
            let mut model = std::collections::VecDeque::new();
            for (index, op) in ops.into_iter().enumerate() {
                match op {
                    Some(len) => {
                        let message = [&[0xF0][..], &vec![(index % 128) as u8; len], &[0xF7]].concat();
                        if sender.send(&message).is_ok() {
                            model.push_back(message);
                        }
                    }
                    None => {
                        prop_assert_eq!(receiver.front().map(<[u8]>::to_vec), model.front().cloned());
                        receiver.done();
                        model.pop_front();
                    }
                }
            }
            while let Some(message) = model.pop_front() {
                prop_assert_eq!(receiver.front(), Some(message.as_slice()));
                receiver.done();
            }
            prop_assert_eq!(receiver.front(), None);
        }
    }
}
