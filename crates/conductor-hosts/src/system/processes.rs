//! Reads the process table: the parents, terminal and control group of a process, and the local
//! process at the other end of a TCP connection.

/// The user this process runs as.
pub fn current_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The name of this user, for files of a service manager.
pub fn user_name() -> String {
    super::variables(&["USER"]).pop().map(|(_, name)| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The names of running programs, if the system has a list of them. On Linux, `crate::apps` reads
/// the names from `/proc` instead.
pub fn program_names() -> Option<std::collections::BTreeSet<String>> {
    None
}

#[cfg(target_os = "linux")]
pub(super) fn pids() -> impl Iterator<Item = i32> {
    std::fs::read_dir("/proc").into_iter().flatten().filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok())
}

/// The facts about a process that decide whether it belongs to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub parent: i32,
    pub has_terminal: bool,
    /// Whether this is pid 1 or a user's service manager. It is the ancestor of all processes of
    /// the user, and becomes the parent of orphans.
    pub is_service_manager: bool,
    /// Start time in ticks since boot; absent if the system does not report it.
    pub started: Option<u64>,
    /// The text of `/proc/PID/cgroup`; empty if there is no such file.
    pub cgroup: String,
    /// Whether this is a shell or launcher that only starts another program, and is not a session
    /// leader.
    pub is_wrapper: bool,
}

/// Programs through which a client may start `conductor mcp start`. The client is their parent
/// process.
const WRAPPERS: &[&str] =
    &["sh", "bash", "dash", "zsh", "ksh", "fish", "env", "nice", "timeout", "npx", "npm", "uv", "uvx"];

/// Reads the process from `/proc`.
#[cfg(target_os = "linux")]
pub fn find(pid: i32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut process = parse_stat(pid, &stat)?;
    process.cgroup = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    // Any program can have the name systemd. Only the program that root installed is the service
    // manager.
    process.is_service_manager &= pid == 1 || is_roots_systemd(pid);
    Some(process)
}

/// Whether the program of this process is the systemd that root installed. If the program cannot be
/// read, it is accepted: a program of this user cannot make its own `/proc/PID/exe` unreadable.
#[cfg(target_os = "linux")]
fn is_roots_systemd(pid: i32) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let link = format!("/proc/{pid}/exe");
    match std::fs::read_link(&link) {
        Ok(path) => {
            path.ends_with("systemd/systemd")
                && std::fs::metadata(link).is_ok_and(|it| it.uid() == 0 && it.mode() & 0o022 == 0)
        }
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    }
}

#[cfg(not(target_os = "linux"))]
pub fn find(pid: i32) -> Option<Process> {
    // This system does not report the terminal of a process, so the command itself checks its
    // terminal.
    Some(Process {
        parent: 0,
        has_terminal: true,
        is_service_manager: pid <= 1,
        started: None,
        cgroup: String::new(),
        is_wrapper: false,
    })
}

/// Parses `pid (name) state parent group session tty …`. The name may contain spaces and
/// parentheses, so fields are counted from the last closing parenthesis.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn parse_stat(pid: i32, stat: &str) -> Option<Process> {
    let open = stat.find('(')?;
    let close = stat.rfind(')')?;
    let name = stat.get(open + 1..close)?;
    let mut fields = stat.get(close + 1..)?.split_ascii_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    let session: i32 = fields.nth(1)?.parse().ok()?;
    let terminal: i64 = fields.next()?.parse().ok()?;
    // The start time is field 22; the terminal is field 7.
    let started = fields.nth(14)?.parse().ok()?;
    Some(Process {
        parent,
        has_terminal: terminal != 0,
        is_service_manager: pid == 1 || (name == "systemd" && parent == 1),
        started: Some(started),
        cgroup: String::new(),
        is_wrapper: session != pid && WRAPPERS.contains(&name.split_whitespace().next().unwrap_or_default()),
    })
}

/// Finds the local process at the other end of a TCP connection to the daemon. Reads all of
/// `/proc`, so call it from a thread that may block.
#[cfg(target_os = "linux")]
pub fn tcp_peer(peer: std::net::SocketAddr, ours: std::net::SocketAddr) -> Option<i32> {
    if !peer.ip().to_canonical().is_loopback() {
        return None;
    }
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|it| std::fs::read_to_string(it).unwrap_or_default());
    let inode = tables.iter().flat_map(|it| it.lines()).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = |place: usize| words.get(place).copied().and_then(address);
        (at(1) == Some((peer.ip().to_canonical(), peer.port()))
            && at(2) == Some((ours.ip().to_canonical(), ours.port())))
        .then(|| words.get(9).copied().unwrap_or_default().to_owned())
    })?;
    let wanted = format!("socket:[{inode}]");
    pids().find(|pid| {
        let Ok(handles) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        handles.flatten().any(|it| std::fs::read_link(it.path()).is_ok_and(|it| it.as_os_str() == wanted.as_str()))
    })
}

#[cfg(not(target_os = "linux"))]
pub fn tcp_peer(_peer: std::net::SocketAddr, _ours: std::net::SocketAddr) -> Option<i32> {
    None
}

/// Whether the peer of a loopback connection belongs to our user, according to `/proc/net/tcp`,
/// which lists only IPv4. Always true on systems other than Linux.
pub fn is_peer_ours(peer: std::net::SocketAddr, ours: std::net::SocketAddr) -> bool {
    if !cfg!(target_os = "linux") {
        return true;
    }
    let spelled = |it: std::net::SocketAddr| match it {
        std::net::SocketAddr::V4(it) => Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(it.ip().octets()), it.port())),
        std::net::SocketAddr::V6(_) => None,
    };
    let (Some(peer), Some(ours)) = (spelled(peer), spelled(ours)) else { return false };
    let uid = rustix::process::getuid().as_raw().to_string();
    std::fs::read_to_string("/proc/net/tcp").is_ok_and(|table| {
        table.lines().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.get(1) == Some(&peer.as_str())
                && words.get(2) == Some(&ours.as_str())
                && words.get(7) == Some(&uid.as_str())
        })
    })
}

/// Whether the system reports which user owns a connection.
pub fn reports_owner(_ours: std::net::SocketAddr, _peer: std::net::SocketAddr) -> bool {
    cfg!(target_os = "linux")
}

/// Parses `0100007F:0BB8`, or 32 digits for IPv6: 32-bit words in the byte order of the machine.
#[cfg(target_os = "linux")]
fn address(text: &str) -> Option<(std::net::IpAddr, u16)> {
    let (host, port) = text.split_once(':')?;
    let words: Vec<[u8; 4]> = (0..host.len() / 8)
        .map(|at| u32::from_str_radix(host.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes))
        .collect::<Option<_>>()?;
    let ip = match words.as_slice() {
        [one] => std::net::IpAddr::from(*one),
        [a, b, c, d] => {
            let bytes: Vec<u8> = [a, b, c, d].into_iter().flatten().copied().collect();
            std::net::IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()
        }
        _ => return None,
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_do_not_shift_the_fields() {
        let rest = "7 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4711 99";
        let parsed = parse_stat(7, &format!("7 (a) b (c)) S 3 7 7 34816 {rest}")).unwrap();
        assert_eq!((parsed.parent, parsed.has_terminal, parsed.started), (3, true, Some(4711)));
        assert!(!parsed.is_service_manager && !parsed.is_wrapper);
        assert!(parse_stat(7, &format!("7 (npm exec x) S 3 7 6 0 {rest}")).unwrap().is_wrapper);
        assert!(
            !parse_stat(7, &format!("7 (bash) S 3 7 7 34816 {rest}")).unwrap().is_wrapper,
            "a session leader was treated as a wrapper"
        );
        assert!(parse_stat(8, &format!("8 (systemd) S 1 8 8 0 {rest}")).unwrap().is_service_manager);
        assert!(
            !parse_stat(8, &format!("8 (systemd) S 3 8 8 0 {rest}")).unwrap().is_service_manager,
            "a program was accepted by its name alone"
        );
        for bad in ["", "7", "7 (", "7 (x", ") 7 (", "7 (x) S", "7 (x) S a b c d", "7 (x) S 1 2 3 4 5"] {
            assert_eq!(parse_stat(7, bad), None, "{bad:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_found_with_its_parent() {
        let found = find(std::process::id() as i32).unwrap();
        assert_eq!(found.parent, std::os::unix::process::parent_id() as i32);
        assert!(found.started.is_some());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_peer_of_a_connection_is_found_in_both_families() {
        for place in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = std::net::TcpListener::bind(place) else { continue };
            let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (_server, peer) = listener.accept().unwrap();
            assert_eq!(peer, client.local_addr().unwrap());
            let found = tcp_peer(peer, listener.local_addr().unwrap());
            assert_eq!(found, Some(std::process::id() as i32), "{place}");
        }
        assert_eq!(address("0100007F:0BB8"), Some(("127.0.0.1".parse().unwrap(), 3000)));
        assert_eq!(address("xyz"), None);
    }
}
