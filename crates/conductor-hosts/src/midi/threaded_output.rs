//! An output with its own thread, for platforms where sending may block.
//!
//! The engine puts whole messages into a [`queue`](super::queue) and wakes the thread. Not here:
//! the platform's send function.

use super::queue::{QUEUE_BYTES, QueueReceiver, QueueSender, queue};
use super::{Output, PortError, SendError};
use conductor_core::event::Trail;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};

pub struct Outlet {
    /// Always present, except while this value is dropped. Dropping the queue ends the thread.
    queue: Option<QueueSender>,
    thread: Thread,
    open: Arc<AtomicBool>,
}

impl Outlet {
    /// Starts the thread. `begin` runs in the new thread and returns the send function. That
    /// function sends one message, and returns `Break` when the port is closed. `end` is called
    /// when the thread stops.
    pub fn start<S: FnMut(&[u8]) -> ControlFlow<()>>(
        thread: &str,
        id: &str,
        begin: impl FnOnce() -> Option<S> + Send + 'static,
        end: impl FnOnce() + Send + 'static,
    ) -> Result<Box<dyn Output>, PortError> {
        let (sender, mut receiver) = queue(QUEUE_BYTES);
        let open = Arc::new(AtomicBool::new(true));
        let opened = Arc::clone(&open);
        let started = thread::Builder::new().name(thread.to_owned()).spawn(move || {
            if let Some(send) = begin() {
                run(&mut receiver, send);
            }
            // From now on, sending fails because the queue is closed.
            drop(receiver);
            opened.store(false, Ordering::Release);
            end();
        });
        let started = started.map_err(|error| PortError::Refused { id: id.into(), detail: error.to_string() })?;
        Ok(Box::new(Outlet { queue: Some(sender), thread: started.thread().clone(), open }))
    }
}

fn run(queue: &mut QueueReceiver, mut send: impl FnMut(&[u8]) -> ControlFlow<()>) {
    loop {
        // First check whether the sender was dropped, then read the queue. Messages that were
        // queued before the drop are then still sent.
        let last = queue.is_abandoned();
        while let Some(message) = queue.front() {
            let sent = send(message);
            queue.done();
            if sent.is_break() {
                return;
            }
        }
        if last {
            return;
        }
        thread::park();
    }
}

impl Output for Outlet {
    fn send(&mut self, message: &[u8], _: Trail) -> Result<(), SendError> {
        let queue = self.queue.as_mut().ok_or(SendError::Offline)?;
        queue.send(message)?;
        self.thread.unpark();
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.queue = None;
        self.thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn what_was_taken_is_sent_in_order_and_then_the_thread_ends() {
        let (told, heard) = mpsc::channel();
        let end = told.clone();
        let begin = move || {
            Some(move |message: &[u8]| {
                told.send(message.to_vec()).map_or(ControlFlow::Break(()), |()| ControlFlow::Continue(()))
            })
        };
        let mut out = Outlet::start("test-out", "x", begin, move || end.send(Vec::new()).unwrap()).unwrap();
        for key in 0..100 {
            out.send(&[0x90, key, 1], Trail::default()).unwrap();
        }
        drop(out);
        let all: Vec<Vec<u8>> = heard.iter().collect();
        let keys: Vec<u8> = all.iter().filter_map(|it| it.get(1).copied()).collect();
        assert_eq!(keys, (0..100).collect::<Vec<u8>>());
        assert_eq!(all.last(), Some(&Vec::new()), "`end` was not called last");
    }

    #[test]
    fn one_that_cannot_send_any_more_is_closed() {
        let (told, ended) = mpsc::channel();
        let begin = || Some(|_: &[u8]| ControlFlow::Break(()));
        let mut out = Outlet::start("test-out", "x", begin, move || told.send(()).unwrap()).unwrap();
        assert!(out.is_open());
        out.send(&[0xF8], Trail::default()).unwrap();
        ended.recv().unwrap();
        assert!(!out.is_open());
        assert_eq!(out.send(&[0xF8], Trail::default()), Err(SendError::Offline));
    }
}
