//! Reads the process table: the parent and the session of a process, and the local process at the
//! other end of a TCP connection.

use super::security::Sid;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::windows::io::{AsRawHandle as _, FromRawHandle as _, OwnedHandle};
use windows_sys::Win32::Foundation::{ERROR_INSUFFICIENT_BUFFER, FILETIME, INVALID_HANDLE_VALUE};
use windows_sys::Win32::NetworkManagement::IpHelper::{
    GetExtendedTcpTable, MIB_TCP6ROW_OWNER_PID, MIB_TCPROW_OWNER_PID, TCP_TABLE_OWNER_PID_ALL,
};
use windows_sys::Win32::Networking::WinSock::{AF_INET, AF_INET6};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
};
use windows_sys::Win32::System::RemoteDesktop::ProcessIdToSessionId;
use windows_sys::Win32::System::Threading::{
    GetCurrentProcessId, GetProcessTimes, OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION,
};

/// The user this process runs as: the last number of the user's SID.
pub fn current_user() -> u32 {
    Sid::current().map_or(u32::MAX, |it| it.number())
}

/// The user in the form that the Task Scheduler accepts: the text of the SID.
pub fn user_name() -> String {
    Sid::current().and_then(|it| it.text()).unwrap_or_default()
}

/// The facts about a process that decide whether it belongs to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub parent: i32,
    /// Whether the process is in the session of a person's desktop, like this process. Services
    /// are in session 0.
    pub has_terminal: bool,
    /// Whether this is the placeholder for a parent that has ended. Windows does not assign a new
    /// parent to the orphans of a process.
    pub is_service_manager: bool,
    /// Start time in units of 100 ns; absent if the system does not report it.
    pub started: Option<u64>,
    /// Always empty, because Windows has no control groups. An orphan therefore always has the same
    /// control group as a client.
    pub cgroup: String,
    /// Whether this is a shell or launcher that only starts another program.
    pub is_wrapper: bool,
}

/// Programs through which a client may start `conductor mcp start`. The client is their parent
/// process.
const WRAPPERS: &[&str] = &["cmd", "powershell", "pwsh", "bash", "sh", "npx", "npm", "uv", "uvx", "conhost"];
/// Programs that open a shell for a person. A shell below them is not a wrapper.
const TERMINALS: &[&str] = &["explorer", "windowsterminal", "openconsole", "conhost", "wezterm-gui", "alacritty"];
/// The pid of the placeholder for a parent that has ended.
const NOBODY: i32 = 0;

struct Entry {
    pid: u32,
    parent: u32,
    /// The name of the program file, in lower case and without `.exe`.
    name: String,
}

fn snapshot() -> Vec<Entry> {
    // SAFETY: the handle gets an owner below, and the first member of the entry contains the size
    // of the entry.
    unsafe {
        let handle = CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0);
        if handle == INVALID_HANDLE_VALUE {
            return Vec::new();
        }
        let handle = OwnedHandle::from_raw_handle(handle);
        let mut entry = PROCESSENTRY32W { dwSize: size_of::<PROCESSENTRY32W>() as u32, ..std::mem::zeroed() };
        let mut all = Vec::new();
        let mut more = Process32FirstW(handle.as_raw_handle(), &raw mut entry);
        while more != 0 {
            let length = entry.szExeFile.iter().position(|it| *it == 0).unwrap_or(entry.szExeFile.len());
            let name = String::from_utf16_lossy(entry.szExeFile.get(..length).unwrap_or_default()).to_lowercase();
            let name = name.strip_suffix(".exe").unwrap_or(&name).to_owned();
            all.push(Entry { pid: entry.th32ProcessID, parent: entry.th32ParentProcessID, name });
            more = Process32NextW(handle.as_raw_handle(), &raw mut entry);
        }
        all
    }
}

/// The names of running programs, in lower case and without `.exe`.
pub fn program_names() -> Option<std::collections::BTreeSet<String>> {
    Some(snapshot().into_iter().map(|it| it.name).collect())
}

/// The start time of a process. `None` if the process has ended or belongs to another user.
fn started(pid: u32) -> Option<u64> {
    // SAFETY: the handle gets an owner immediately, and the times are written on success.
    unsafe {
        let handle = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid);
        if handle.is_null() {
            return None;
        }
        let handle = OwnedHandle::from_raw_handle(handle);
        let [mut created, mut exited, mut kernel, mut user] = [FILETIME::default(); 4];
        let done =
            GetProcessTimes(handle.as_raw_handle(), &raw mut created, &raw mut exited, &raw mut kernel, &raw mut user);
        (done != 0).then(|| u64::from(created.dwHighDateTime) << 32 | u64::from(created.dwLowDateTime))
    }
}

fn session(pid: u32) -> Option<u32> {
    let mut session = 0;
    // SAFETY: the number is written on success.
    (unsafe { ProcessIdToSessionId(pid, &raw mut session) } != 0).then_some(session)
}

/// Reads a process from the process table.
pub fn find(pid: i32) -> Option<Process> {
    if pid == NOBODY {
        return Some(Process {
            parent: NOBODY,
            has_terminal: false,
            is_service_manager: true,
            started: Some(0),
            cgroup: String::new(),
            is_wrapper: false,
        });
    }
    let wanted = u32::try_from(pid).ok()?;
    let all = snapshot();
    let entry = all.iter().find(|it| it.pid == wanted)?;
    let began = started(wanted);
    // The pid of a parent that has ended may now belong to a younger process, so compare the start
    // times.
    let parent = all.iter().find(|it| it.pid == entry.parent && it.pid != entry.pid).filter(|it| {
        match (started(it.pid), began) {
            (Some(parent), Some(child)) => parent <= child,
            // A process of another user, such as a service, cannot be examined. It is assumed to be
            // older.
            (None, _) | (_, None) => true,
        }
    });
    // SAFETY: the call takes no arguments and returns a number.
    let own_session = session(unsafe { GetCurrentProcessId() });
    Some(Process {
        parent: parent.and_then(|it| i32::try_from(it.pid).ok()).unwrap_or(NOBODY),
        has_terminal: session(wanted).is_some_and(|it| Some(it) == own_session),
        is_service_manager: false,
        started: began,
        cgroup: String::new(),
        is_wrapper: WRAPPERS.contains(&entry.name.as_str())
            && parent.is_some_and(|it| !TERMINALS.contains(&it.name.as_str())),
    })
}

/// Finds the local process at the other end of a TCP connection to the daemon.
pub fn tcp_peer(peer: SocketAddr, ours: SocketAddr) -> Option<i32> {
    if !peer.ip().to_canonical().is_loopback() {
        return None;
    }
    let canonical = |it: SocketAddr| SocketAddr::new(it.ip().to_canonical(), it.port());
    let wanted = (canonical(peer), canonical(ours));
    let is_wanted = |row: &Row| (row.local, row.remote) == wanted;
    let found = rows_v4().into_iter().find(is_wanted).or_else(|| rows_v6().into_iter().find(is_wanted));
    // Process 0 is the system itself.
    found.filter(|it| it.pid != 0).and_then(|it| i32::try_from(it.pid).ok())
}

/// Whether the peer of a loopback connection belongs to our user.
pub fn is_peer_ours(peer: SocketAddr, ours: SocketAddr) -> bool {
    let pid = tcp_peer(peer, ours).and_then(|it| u32::try_from(it).ok());
    let user = pid.and_then(|it| Sid::of_process(it).ok());
    user.is_some() && user == Sid::current().ok()
}

/// Whether the system reports the process behind our own end of a connection. Windows always does,
/// and Wine often does not. Only if it does, a peer without a process is a reason to refuse it.
pub fn reports_owner(ours: SocketAddr, peer: SocketAddr) -> bool {
    tcp_peer(ours, peer) == i32::try_from(std::process::id()).ok()
}

struct Row {
    local: SocketAddr,
    remote: SocketAddr,
    pid: u32,
}

/// Reads a port, which is in network byte order in the low half of a word.
fn port(word: u32) -> u16 {
    u16::from_be(word as u16)
}

fn rows_v4() -> Vec<Row> {
    let address = |ip: u32, at: u32| SocketAddr::new(IpAddr::V4(Ipv4Addr::from(ip.to_ne_bytes())), port(at));
    rows::<MIB_TCPROW_OWNER_PID>(AF_INET.into())
        .into_iter()
        .map(|it| Row {
            local: address(it.dwLocalAddr, it.dwLocalPort),
            remote: address(it.dwRemoteAddr, it.dwRemotePort),
            pid: it.dwOwningPid,
        })
        .collect()
}

fn rows_v6() -> Vec<Row> {
    let address = |ip: [u8; 16], at: u32| SocketAddr::new(Ipv6Addr::from(ip).to_canonical(), port(at));
    rows::<MIB_TCP6ROW_OWNER_PID>(AF_INET6.into())
        .into_iter()
        .map(|it| Row {
            local: address(it.ucLocalAddr, it.dwLocalPort),
            remote: address(it.ucRemoteAddr, it.dwRemotePort),
            pid: it.dwOwningPid,
        })
        .collect()
}

/// The rows of a table: a count, followed by structures of type `T`. Usually one call is enough; a
/// call takes about 150 ms under Wine.
fn rows<T: Copy>(family: u32) -> Vec<T> {
    let mut size: u32 = 64 * 1024;
    // The table may grow between two calls.
    for _ in 0..4 {
        let mut space = vec![0_u64; (size as usize).div_ceil(8)];
        let start = space.as_mut_ptr();
        // SAFETY: the buffer has at least the size that is passed. If it is too small, the call
        // only writes the size that it needs. Only as many rows are read as fit into the buffer.
        unsafe {
            match GetExtendedTcpTable(start.cast(), &raw mut size, 0, family, TCP_TABLE_OWNER_PID_ALL, 0) {
                0 => {
                    let count = *start.cast::<u32>() as usize;
                    let most = (space.len() * 8).saturating_sub(4) / size_of::<T>();
                    let first = start.cast::<u8>().add(4).cast::<T>();
                    return (0..count.min(most)).map(|at| first.add(at).read_unaligned()).collect();
                }
                ERROR_INSUFFICIENT_BUFFER => size = size.saturating_add(4096),
                _ => return Vec::new(),
            }
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_process_is_found_with_its_parent() {
        let own = i32::try_from(std::process::id()).unwrap();
        let found = find(own).unwrap();
        assert!(found.has_terminal && found.started.is_some(), "{found:?}");
        assert!(!found.is_service_manager);
        assert!(find(NOBODY).unwrap().is_service_manager);
        assert_eq!(find(i32::MAX), None);
    }

    #[test]
    fn the_peer_of_a_connection_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(ours).unwrap();
        let (_server, peer) = listener.accept().unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        if super::super::wine::is_wine() {
            // Wine reports the process of a connection only after the first transfer of bytes.
            assert!(tcp_peer(peer, ours).is_none() && !is_peer_ours(peer, ours) && !reports_owner(ours, peer));
            return;
        }
        assert_eq!(tcp_peer(peer, ours), i32::try_from(std::process::id()).ok());
        assert!(is_peer_ours(peer, ours) && reports_owner(ours, peer));
    }
}
