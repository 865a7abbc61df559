//! Users and access lists of Windows.

use std::ffi::c_void;
use std::io;
use std::os::windows::ffi::OsStrExt as _;
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use std::path::Path;
use std::ptr::{null, null_mut};
use windows_sys::Win32::Foundation::{ERROR_SUCCESS, HANDLE, LocalFree};
use windows_sys::Win32::Security::Authorization::{
    ConvertSidToStringSidW, ConvertStringSecurityDescriptorToSecurityDescriptorW, GetNamedSecurityInfoW,
    SDDL_REVISION_1, SE_FILE_OBJECT, SetNamedSecurityInfoW,
};
use windows_sys::Win32::Security::{
    ACCESS_ALLOWED_ACE, ACL, CopySid, DACL_SECURITY_INFORMATION, EqualSid, GetAce, GetLengthSid,
    GetSecurityDescriptorDacl, GetSidSubAuthority, GetSidSubAuthorityCount, GetTokenInformation, INHERIT_ONLY_ACE,
    IsWellKnownSid, OWNER_SECURITY_INFORMATION, PROTECTED_DACL_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, PSID,
    SECURITY_ATTRIBUTES, SetFileSecurityW, TOKEN_QUERY, TOKEN_USER, TokenUser, WinBuiltinAdministratorsSid,
    WinCreatorOwnerSid, WinLocalSystemSid,
};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, OpenProcess, OpenProcessToken, PROCESS_QUERY_LIMITED_INFORMATION,
};

/// A memory block that the system has allocated and that `LocalFree` releases.
struct Local(*mut c_void);

impl Drop for Local {
    fn drop(&mut self) {
        // SAFETY: the system allocated the block with LocalAlloc, and this is its only owner.
        unsafe { LocalFree(self.0) };
    }
}

fn wide(path: &Path) -> Vec<u16> {
    path.as_os_str().encode_wide().chain([0]).collect()
}

fn checked(code: u32) -> io::Result<()> {
    if code == ERROR_SUCCESS { Ok(()) } else { Err(io::Error::from_raw_os_error(code.cast_signed())) }
}

/// The identity (SID) of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sid(Vec<u32>);

impl Sid {
    fn raw(&self) -> PSID {
        self.0.as_ptr().cast_mut().cast()
    }

    /// The user of this process.
    pub fn current() -> io::Result<Self> {
        // SAFETY: the pseudo handle of this process is always valid and needs no closing.
        Self::of_process_handle(unsafe { GetCurrentProcess() })
    }

    /// The user of another process.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        // SAFETY: the call takes only numbers. The returned handle gets an owner below.
        let process = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid) };
        if process.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle is new, and this is its only owner.
        let process = unsafe { OwnedHandle::from_raw_handle(process) };
        Self::of_process_handle(process.as_raw_handle())
    }

    fn of_process_handle(process: HANDLE) -> io::Result<Self> {
        let mut token = null_mut();
        // SAFETY: the process handle is open, and the token is written only on success.
        if unsafe { OpenProcessToken(process, TOKEN_QUERY, &raw mut token) } == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the handle is new, and this is its only owner.
        let token = unsafe { OwnedHandle::from_raw_handle(token) };
        let mut length = 0;
        // The buffer consists of 8-byte words, so that the structure is aligned.
        let mut space = [0_u64; 32];
        // SAFETY: the buffer has the length that is passed.
        let done = unsafe {
            GetTokenInformation(
                token.as_raw_handle(),
                TokenUser,
                space.as_mut_ptr().cast(),
                size_of_val(&space) as u32,
                &raw mut length,
            )
        };
        if done == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above has written a TOKEN_USER, whose SID points into the buffer.
        unsafe { Self::copy((*space.as_ptr().cast::<TOKEN_USER>()).User.Sid) }
    }

    /// # Safety
    /// `sid` must point to a valid SID.
    unsafe fn copy(sid: PSID) -> io::Result<Self> {
        // SAFETY: the caller passes a valid SID, and the buffer has its length.
        unsafe {
            let length = GetLengthSid(sid);
            let mut own = vec![0_u32; (length as usize).div_ceil(4)];
            if CopySid(length, own.as_mut_ptr().cast(), sid) == 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Sid(own))
        }
    }

    /// The last number of the SID. It identifies the user on this machine or domain.
    pub fn number(&self) -> u32 {
        // SAFETY: the SID is valid, and its count of numbers is read before the last one.
        unsafe {
            let count = *GetSidSubAuthorityCount(self.raw());
            if count == 0 { 0 } else { *GetSidSubAuthority(self.raw(), u32::from(count) - 1) }
        }
    }

    pub fn text(&self) -> io::Result<String> {
        let mut text = null_mut();
        // SAFETY: the SID is valid, and the text is written only on success.
        if unsafe { ConvertSidToStringSidW(self.raw(), &raw mut text) } == 0 {
            return Err(io::Error::last_os_error());
        }
        let _owned = Local(text.cast());
        // SAFETY: the system wrote a text that ends with zero.
        unsafe {
            let length = (0..).take_while(|at| *text.add(*at) != 0).count();
            Ok(String::from_utf16_lossy(std::slice::from_raw_parts(text, length)))
        }
    }
}

/// A security descriptor with an access list, in memory that the system has allocated.
pub struct Descriptor(Local);

impl Descriptor {
    /// An access list that gives full access to the current user and no access to others. If
    /// `inherited` is true, the list also applies to new files and folders inside.
    pub fn owner_only(inherited: bool) -> io::Result<Self> {
        let user = Sid::current()?.text()?;
        let flags = if inherited { "OICI" } else { "" };
        let text: Vec<u16> = format!("D:P(A;{flags};FA;;;{user})").encode_utf16().chain([0]).collect();
        let mut descriptor: PSECURITY_DESCRIPTOR = null_mut();
        // SAFETY: the text ends with zero, and the descriptor is written only on success.
        let done = unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                text.as_ptr(),
                SDDL_REVISION_1,
                &raw mut descriptor,
                null_mut(),
            )
        };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(Descriptor(Local(descriptor))) }
    }

    /// The attributes of a new object. They borrow from this value.
    pub fn attributes(&self) -> SECURITY_ATTRIBUTES {
        SECURITY_ATTRIBUTES {
            nLength: size_of::<SECURITY_ATTRIBUTES>() as u32,
            lpSecurityDescriptor: self.0.0,
            bInheritHandle: 0,
        }
    }

    fn list(&self) -> io::Result<*mut ACL> {
        let (mut present, mut defaulted, mut list) = (0, 0, null_mut());
        // SAFETY: the descriptor is valid while this value lives.
        let done = unsafe { GetSecurityDescriptorDacl(self.0.0, &raw mut present, &raw mut list, &raw mut defaulted) };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(list) }
    }
}

/// Gives a file or folder an access list with only its owner, and stops the inheritance from its
/// parent.
pub fn set_owner_only(path: &Path) -> io::Result<()> {
    let descriptor = Descriptor::owner_only(path.is_dir())?;
    let list = descriptor.list()?;
    let what = DACL_SECURITY_INFORMATION | PROTECTED_DACL_SECURITY_INFORMATION;
    // SAFETY: the name ends with zero, and the list lives until the end of the function.
    checked(unsafe {
        SetNamedSecurityInfoW(wide(path).as_ptr(), SE_FILE_OBJECT, what, null_mut(), null_mut(), list, null())
    })?;
    // The call above also changes the files inside. If it has added entries of the parent folder,
    // as Wine does, replace the list of this folder alone.
    if is_open_to_others(path)? {
        // SAFETY: the name ends with zero, and the descriptor lives until the end of the function.
        if unsafe { SetFileSecurityW(wide(path).as_ptr(), what, descriptor.0.0) } == 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

struct Read {
    owner: PSID,
    list: *mut ACL,
    _descriptor: Local,
}

fn read(path: &Path) -> io::Result<Read> {
    let (mut owner, mut list, mut descriptor) = (null_mut(), null_mut(), null_mut());
    let what = OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION;
    // SAFETY: the name ends with zero. Owner and list point into the descriptor, which is kept.
    checked(unsafe {
        GetNamedSecurityInfoW(
            wide(path).as_ptr(),
            SE_FILE_OBJECT,
            what,
            &raw mut owner,
            null_mut(),
            &raw mut list,
            null_mut(),
            &raw mut descriptor,
        )
    })?;
    Ok(Read { owner, list, _descriptor: Local(descriptor) })
}

/// Whether the file belongs to the current user, or to the administrators: an elevated program of
/// this user creates files that belong to them.
pub fn is_ours(path: &Path) -> io::Result<bool> {
    let found = read(path)?;
    let user = Sid::current()?;
    // SAFETY: the owner points into the descriptor, which `found` keeps.
    Ok(!found.owner.is_null()
        && unsafe {
            EqualSid(found.owner, user.raw()) != 0 || IsWellKnownSid(found.owner, WinBuiltinAdministratorsSid) != 0
        })
}

/// The type of an entry that allows access.
const ALLOWED: u8 = 0;

/// Whether the access list allows access to a user other than the owner, the system and the
/// administrators. A missing list allows everyone everything.
pub fn is_open_to_others(path: &Path) -> io::Result<bool> {
    let found = read(path)?;
    if found.list.is_null() {
        return Ok(true);
    }
    let user = Sid::current()?;
    // SAFETY: the list points into the descriptor, which `found` keeps. Every entry starts with a
    // header, and an entry that allows something has a SID at `SidStart`.
    unsafe {
        for at in 0..u32::from((*found.list).AceCount) {
            let mut entry: *mut c_void = null_mut();
            if GetAce(found.list, at, &raw mut entry) == 0 {
                return Err(io::Error::last_os_error());
            }
            let entry = entry.cast::<ACCESS_ALLOWED_ACE>();
            let header = (*entry).Header;
            let is_effective = u32::from(header.AceFlags) & INHERIT_ONLY_ACE == 0 && (*entry).Mask != 0;
            if header.AceType != ALLOWED || !is_effective {
                continue;
            }
            let sid: PSID = (&raw mut (*entry).SidStart).cast();
            let trusted = [WinLocalSystemSid, WinBuiltinAdministratorsSid, WinCreatorOwnerSid];
            if EqualSid(sid, user.raw()) == 0 && !trusted.iter().any(|it| IsWellKnownSid(sid, *it) != 0) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
