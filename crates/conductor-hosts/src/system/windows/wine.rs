//! Detects whether a test runs under Wine, which lacks some features of Windows.

use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress};

pub fn is_wine() -> bool {
    // SAFETY: both names end with zero, and `ntdll` is always loaded.
    unsafe { GetProcAddress(GetModuleHandleA(c"ntdll.dll".as_ptr().cast()), c"wine_get_version".as_ptr().cast()) }
        .is_some()
}
