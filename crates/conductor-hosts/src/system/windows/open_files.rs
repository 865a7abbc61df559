//! The limit of open files. Windows has no limit that a program reaches in practice.

use std::io;
use std::time::Duration;
use windows_sys::Win32::Foundation::{ERROR_NO_SYSTEM_RESOURCES, ERROR_NOT_ENOUGH_MEMORY, ERROR_TOO_MANY_OPEN_FILES};

/// The limit from which the connection budgets are computed.
const MOST: u64 = 65_536;
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
#[error("this process may open too few files")]
pub struct TooFew;

pub fn raise() -> Result<(), TooFew> {
    Ok(())
}

pub fn limit() -> u64 {
    MOST
}

/// Waits before the next accept if the last one failed for lack of handles or memory.
pub async fn after_failed_accept(error: &io::Error) {
    let exhausted = [ERROR_TOO_MANY_OPEN_FILES, ERROR_NOT_ENOUGH_MEMORY, ERROR_NO_SYSTEM_RESOURCES];
    if exhausted.iter().any(|it| error.raw_os_error() == Some(it.cast_signed())) {
        tokio::time::sleep(PAUSE).await;
    } else {
        tokio::task::yield_now().await;
    }
}
