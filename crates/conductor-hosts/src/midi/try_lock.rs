//! A lock without waiters in the kernel, so that a device callback may try it.
//!
//! A callback uses [`TryLock::try_with`]: if the lock is held, the callback continues without it.
//! One other thread, the owner, keeps the lock in a [`Held`] value and releases it while it waits
//! for work. The owner tries until it gets the lock back; a callback holds it for a few
//! microseconds only. Releasing therefore never makes a system call, on either side.
//!
//! Not here: the value behind the lock (the daemon's `owner/desk`).

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Number of attempts without a pause. After them, the owner yields the processor between attempts.
const SPINS: u32 = 100;
const YIELDS_END: u32 = SPINS + 10;
/// Pause between all further attempts. The thread of the callback may have been preempted on this
/// processor. If an owner with real-time priority only yielded, that thread would never run.
const PAUSE: Duration = Duration::from_micros(20);

pub struct TryLock<T: ?Sized> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `held` gives at most one thread access to the value at a time, as in any mutex.
unsafe impl<T: ?Sized + Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    /// Creates the lock, held by the caller.
    pub fn held(value: T) -> Held<T> {
        Held { lock: Arc::new(TryLock { held: AtomicBool::new(true), value: UnsafeCell::new(value) }) }
    }
}

impl<T: ?Sized> TryLock<T> {
    /// Calls `act` with the value, or returns `None` at once if the lock is held.
    pub fn try_with<R>(&self, act: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.take() {
            return None;
        }
        let _release = Release(&self.held);
        // SAFETY: the exchange in `take` succeeded, so no other thread has access until `_release`.
        Some(act(unsafe { &mut *self.value.get() }))
    }

    fn take(&self) -> bool {
        self.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn take_patiently(&self) {
        let mut tries = 0u32;
        while !self.take() {
            tries = tries.saturating_add(1);
            match tries {
                0..SPINS => std::hint::spin_loop(),
                SPINS..YIELDS_END => std::thread::yield_now(),
                _ => std::thread::park_timeout(PAUSE),
            }
        }
    }
}

/// Releases the lock when it is dropped, also during a panic.
struct Release<'a>(&'a AtomicBool);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The held lock. Gives access to the value.
pub struct Held<T: ?Sized> {
    lock: Arc<TryLock<T>>,
}

// SAFETY: a `Held` gives the only access to the value. Sending it to another thread sends the
// access too.
unsafe impl<T: ?Sized + Send> Send for Held<T> {}

impl<T: ?Sized> Held<T> {
    /// A handle for the threads that try to lock.
    pub fn lock(&self) -> Arc<TryLock<T>> {
        Arc::clone(&self.lock)
    }

    /// Releases the lock during `act`. May consume the token of `Thread::unpark`, so the caller
    /// must look for work afterwards.
    pub fn released<R>(&mut self, act: impl FnOnce() -> R) -> R {
        struct Retake<'a, T: ?Sized>(&'a TryLock<T>);
        impl<T: ?Sized> Drop for Retake<'_, T> {
            fn drop(&mut self) {
                self.0.take_patiently();
            }
        }
        self.lock.held.store(false, Ordering::Release);
        let _retake = Retake(&self.lock);
        act()
    }
}

impl<T: ?Sized> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this value holds the lock, and `released` needs `&mut self`, so it cannot run
        // now.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for Held<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for Held<T> {
    fn drop(&mut self) {
        self.lock.held.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lock_is_refused_and_a_released_one_is_given() {
        let mut held = TryLock::held(1);
        let lock = held.lock();
        assert_eq!(lock.try_with(|it| *it), None);
        *held = 2;
        assert_eq!(held.released(|| lock.try_with(|it| std::mem::replace(it, 3))), Some(2));
        assert_eq!((*held, lock.try_with(|it| *it)), (3, None));
        drop(held);
        assert_eq!(lock.try_with(|it| *it), Some(3));
    }

    #[test]
    fn no_addition_is_lost_between_threads_that_try_and_one_that_holds() {
        const TURNS: u64 = 20_000;
        let mut held = TryLock::held(0u64);
        let lock = held.lock();
        let other =
            std::thread::spawn(move || (0..TURNS).filter(|_| lock.try_with(|it| *it += 1).is_some()).count() as u64);
        for _ in 0..TURNS {
            held.released(std::thread::yield_now);
            *held += 1;
        }
        let added = held.released(|| other.join().unwrap());
        assert_eq!(*held, TURNS + added);
    }

    #[test]
    fn a_panic_releases_the_lock_of_a_callback_and_retakes_that_of_the_owner() {
        let mut held = TryLock::held(0);
        let lock = held.lock();
        let fails = |act: &mut dyn FnMut()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_err();
        assert!(fails(&mut || held.released(|| panic!("while released"))));
        assert_eq!(lock.try_with(|_| ()), None);
        drop(held);
        assert!(fails(&mut || lock.try_with(|_| panic!("in a callback")).unwrap_or_default()));
        assert_eq!(lock.try_with(|_| ()), Some(()));
    }
}
