//! Who counts as a person on the human door. Any process of the same user can connect, and an AI client may own a shell; so a decision
//! needs a terminal behind the peer, and no AI client above it.
//!
//! This stops an honest client, not a hostile one: a process of the same user can always open a terminal of its own.

use crate::daemon::socket::Peer;
use std::collections::BTreeSet;

/// Proof that the peer counts as a person. Only [`recognise`] makes one; methods that decide something take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Person {
    pub uid: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAPerson {
    #[error("the process at the other end is not known to the system")]
    Unknown,
    #[error("process {pid} has no terminal; decisions are made at a terminal or in the console")]
    NoTerminal { pid: i32 },
    #[error("process {pid} was started by an AI client (process {client}); ask the person")]
    BelowClient { pid: i32, client: i32 },
}

/// One process, as far as the rule needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub parent: i32,
    pub has_terminal: bool,
    /// Pid 1 or a user's service manager: everything descends from it, so it says nothing.
    pub is_service_manager: bool,
}

/// `clients` are the parents of connected `mcp start` proxies, as they were when those connected.
pub fn recognise(
    peer: Peer,
    clients: &BTreeSet<i32>,
    look: impl Fn(i32) -> Option<Process>,
) -> Result<Person, NotAPerson> {
    let pid = peer.pid.ok_or(NotAPerson::Unknown)?;
    let process = look(pid).ok_or(NotAPerson::Unknown)?;
    if !process.has_terminal {
        return Err(NotAPerson::NoTerminal { pid });
    }
    let (mut at, mut here) = (pid, process);
    // A chain of parents has no loops, except when pids are reused while it is walked; more steps than processes can be nested end it.
    for _ in 0..MAX_DEPTH {
        if here.is_service_manager {
            break;
        }
        if clients.contains(&at) {
            return Err(NotAPerson::BelowClient { pid, client: at });
        }
        at = here.parent;
        match look(at) {
            Some(parent) => here = parent,
            None => break,
        }
    }
    Ok(Person { uid: peer.uid })
}

const MAX_DEPTH: usize = 512;

/// Reads `/proc`. Where there is none nobody is recognised by the socket, and decisions are made in the console.
#[cfg(target_os = "linux")]
pub fn look(pid: i32) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(pid, &stat)
}

#[cfg(not(target_os = "linux"))]
pub fn look(pid: i32) -> Option<Process> {
    // The command checks its own terminal here; the system does not tell the daemon.
    Some(Process { parent: 0, has_terminal: true, is_service_manager: pid <= 1 })
}

/// `pid (name) state parent group session tty …`; the name may hold blanks and brackets, so fields are counted after the last one.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
fn parse_stat(pid: i32, stat: &str) -> Option<Process> {
    let open = stat.find('(')?;
    let close = stat.rfind(')')?;
    let name = stat.get(open + 1..close)?;
    let mut fields = stat.get(close + 1..)?.split_ascii_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    let terminal: i64 = fields.nth(2)?.parse().ok()?;
    Some(Process { parent, has_terminal: terminal != 0, is_service_manager: pid == 1 || name == "systemd" })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// pid, parent, terminal
    fn tree(rows: &'static [(i32, i32, bool)]) -> impl Fn(i32) -> Option<Process> {
        move |pid| {
            rows.iter().find(|row| row.0 == pid).map(|&(pid, parent, has_terminal)| Process {
                parent,
                has_terminal,
                is_service_manager: pid == 1,
            })
        }
    }

    fn ask(pid: i32, clients: &[i32], look: impl Fn(i32) -> Option<Process>) -> Result<Person, NotAPerson> {
        recognise(Peer { uid: 7, pid: Some(pid) }, &clients.iter().copied().collect(), look)
    }

    const SHELL: &[(i32, i32, bool)] =
        &[(1, 0, false), (10, 1, false), (20, 10, true), (30, 20, true), (40, 10, false)];

    #[test]
    fn a_command_at_a_terminal_is_a_person() {
        assert_eq!(ask(30, &[], tree(SHELL)), Ok(Person { uid: 7 }));
        // A client elsewhere in the tree takes nothing away.
        assert_eq!(ask(30, &[40], tree(SHELL)), Ok(Person { uid: 7 }));
    }

    #[test]
    fn without_a_terminal_nobody_decides() {
        assert_eq!(ask(40, &[], tree(SHELL)), Err(NotAPerson::NoTerminal { pid: 40 }));
        assert_eq!(ask(99, &[], tree(SHELL)), Err(NotAPerson::Unknown));
        let peer = Peer { uid: 7, pid: None };
        assert_eq!(recognise(peer, &BTreeSet::new(), tree(SHELL)), Err(NotAPerson::Unknown));
    }

    #[test]
    fn below_an_ai_client_nobody_decides() {
        assert_eq!(ask(30, &[10], tree(SHELL)), Err(NotAPerson::BelowClient { pid: 30, client: 10 }));
        assert_eq!(ask(30, &[30], tree(SHELL)), Err(NotAPerson::BelowClient { pid: 30, client: 30 }));
    }

    #[test]
    fn the_service_manager_is_everyones_ancestor_and_never_counts() {
        assert_eq!(ask(30, &[1], tree(SHELL)), Ok(Person { uid: 7 }));
    }

    #[test]
    fn a_loop_of_reused_pids_ends() {
        const LOOP: &[(i32, i32, bool)] = &[(5, 6, true), (6, 5, true)];
        assert_eq!(ask(5, &[], tree(LOOP)), Ok(Person { uid: 7 }));
    }

    #[test]
    fn names_with_brackets_do_not_shift_the_fields() {
        let parsed = parse_stat(7, "7 (a) b (c)) S 3 7 7 34816 7 4194304");
        assert_eq!(parsed, Some(Process { parent: 3, has_terminal: true, is_service_manager: false }));
        let parsed = parse_stat(8, "8 (systemd) S 1 8 8 0 -1 4194560");
        assert_eq!(parsed, Some(Process { parent: 1, has_terminal: false, is_service_manager: true }));
        for bad in ["", "7", "7 (", "7 (x", ") 7 (", "7 (x) S", "7 (x) S a b c d"] {
            assert_eq!(parse_stat(7, bad), None, "{bad:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_found_with_its_parent() {
        let found = look(std::process::id() as i32).unwrap();
        assert_eq!(found.parent, std::os::unix::process::parent_id() as i32);
    }
}
