//! A device callback must neither allocate nor wait. This binary counts the allocations and the
//! system calls of its threads, so it contains no other tests.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]

#[cfg(target_os = "linux")]
mod period;
#[cfg(target_os = "linux")]
mod system_calls;

use conductor_core::event::{DeviceSlot, Micros, Taint};
use conductor_hosts::midi::Backend;
use conductor_hosts::midi::loopback::Loopback;
use conductor_hosts::midi::ring::{Bell, event_ring};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

thread_local! {
    static COUNT: Cell<Option<u64>> = const { Cell::new(None) };
}

fn count() {
    COUNT.with(|count| {
        if let Some(so_far) = count.get() {
            count.set(Some(so_far + 1));
        }
    });
}

// Passes every call to the system allocator. Counting uses only a constant thread-local, so it does
// not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(run: impl FnOnce()) -> u64 {
    COUNT.with(|count| count.set(Some(0)));
    run();
    COUNT.with(|count| count.replace(None)).unwrap()
}

#[test]
fn hearing_allocates_nothing_with_room_and_without() {
    let clock = AtomicU64::new(0);
    let stamp = Arc::new(move || Micros(clock.fetch_add(7, Ordering::Relaxed)));
    let mut loopback = Loopback::new(stamp, Arc::new(|_| {}));
    let hand = loopback.plug("pads");
    let (sender, mut receiver) = event_ring(DeviceSlot(0), u32::MAX, Bell::new(|| {}));
    let _input = loopback.open_input("pads", sender).unwrap();
    let sysex: Vec<u8> = [&[0xF0][..], &[5; 3000], &[0xF7]].concat();
    let spent = allocations(|| {
        // Send more messages than the ring can store, of every kind that its overflow rule
        // distinguishes.
        for i in 0..20_000u32 {
            let (note, value) = ((i % 128) as u8, (i / 128 % 128) as u8);
            hand.play(
                &[0x90, note, value, 0xB0, note, value, 0xE0, value, note, 0xF8, 0x80, note, value],
                Taint::Clean,
            );
            hand.play(&sysex, Taint::Tool);
        }
    });
    assert_eq!(spent, 0);
    let counts = receiver.counts();
    assert!(
        counts.dropped > 0 && counts.merged > 0 && counts.held_releases > 0 && counts.sysex_dropped > 0,
        "{counts:?}"
    );
    assert!(std::iter::from_fn(|| receiver.pop()).count() > 3000);
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(vec![1u8])), 2);
}
