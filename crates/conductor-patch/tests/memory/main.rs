//! The memory use is proportional to the file size for every content. This test is a separate
//! binary because it replaces the global allocator by a counting one.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use conductor_patch::{Document, Format, Limits, OpenError};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded unchanged to the system allocator; the counters only store sizes.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller fulfils the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `alloc` above returned the pointer for this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Peak memory of opening and saving in addition to the input, and the outcome.
fn cost(text: String, format: Format) -> (usize, Result<(), OpenError>) {
    let bytes: std::sync::Arc<[u8]> = text.into_bytes().into();
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let outcome = Document::open(bytes, format, &Limits::default()).map(|document| drop(document.to_bytes()));
    (PEAK.load(Ordering::Relaxed) - before, outcome)
}

#[test]
fn opening_costs_memory_in_proportion() {
    const MB: usize = 1 << 20;
    let around = |filling: &str| format!("{{\"patcher\":{{\"boxes\":[],\"data\":{filling},\"lines\":[]}}}}");
    // Data without boxes and cords only costs the copy that saving makes.
    for filling in [
        format!("\"{}\"", "x".repeat(50 * MB)),
        format!("[{}0]", "1,".repeat(25 * MB)),
        format!("[{}[]]", "[],".repeat(4 * MB)),
    ] {
        let (peak, outcome) = cost(around(&filling), Format::Maxpat);
        assert!(outcome.is_ok());
        assert!(peak < 52 * MB, "{} MB", peak / MB);
    }
    // A file with millions of items is refused before it uses much memory.
    let endless = [
        (format!("{{\"patcher\":{{\"boxes\":[{}", "{\"box\":{}},".repeat(4 * MB)), Format::Maxpat),
        (format!("{{\"patcher\":{{\"lines\":[{}", "{\"patchline\":{}},".repeat(3 * MB)), Format::Maxpat),
        (format!("#N canvas 0 0 1 1 12;{}", "#X obj 1 1 f;".repeat(4 * MB)), Format::Pd),
        (format!("#N canvas 0 0 1 1 12;{}", "#N canvas;".repeat(5 * MB)), Format::Pd),
        ("[".repeat(50 * MB), Format::Maxpat),
        ("{\"patcher\":{\"boxes\":[{\"box\":{\"patcher\":{\"boxes\":[{\"box\":".repeat(MB), Format::Maxpat),
    ];
    for (text, format) in endless {
        let (peak, outcome) = cost(text, format);
        assert!(
            matches!(outcome, Err(OpenError::TooManyItems { .. } | OpenError::TooDeep { .. } | OpenError::Json(_))),
            "{outcome:?}"
        );
        assert!(peak < 300 * MB, "{} MB, {outcome:?}", peak / MB);
    }
    // A realistic patch of fifty thousand boxes, about 12 MB.
    let one = |n: usize| {
        format!(
            "{{\"box\":{{\"id\":\"obj-{n}\",\"maxclass\":\"newobj\",\"numinlets\":2,\"numoutlets\":1,\"outlettype\":[\"bang\"],\"patching_rect\":[{n}.0,5.0,60.0,22.0],\"text\":\"metro 500\"}}}}"
        )
    };
    let boxes: Vec<String> = (0..50_000).map(one).collect();
    let text = format!("{{\"patcher\":{{\"boxes\":[{}],\"lines\":[]}}}}", boxes.join(","));
    let size = text.len();
    let (peak, outcome) = cost(text, Format::Maxpat);
    assert!(outcome.is_ok());
    assert!(peak < size * 8, "{} MB for {} MB", peak / MB, size / MB);
}
