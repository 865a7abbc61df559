//! Decides who counts as a person on the human door. Any process of the same user can connect, and
//! an AI client may run a shell. So a decision needs a peer that has a terminal, has no AI client
//! among its ancestors, and is not an orphan of a client.
//!
//! An orphan is a process that a client started and detached (double fork, `setsid`). It no longer
//! has the client as an ancestor: the kernel makes it a child of pid 1 or of the user's service
//! manager. To find orphans, walk up from the peer to the last process that is younger than the
//! client. That process may be an orphan if its parent is pid 1 or the service manager, and its
//! cgroup is the client's or that of `systemd-run`. The cgroup is compared because a desktop gives
//! every window its own scope, but an orphan stays in the client's scope. Terminals opened before
//! the client started count as people. New windows of an emulator, multiplexer or login server that
//! ran before the client count too.
//!
//! This stops an honest client, not a hostile one: a process of the same user can type into a
//! terminal that a person opened.

use conductor_hosts::system::listener::Peer;
use conductor_hosts::system::processes::{self, Process};

/// Proof that the peer counts as a person. Only [`recognise`] creates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Person {
    pub uid: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAPerson {
    #[error("the calling process cannot be found")]
    Unknown,
    #[error("process {pid} has no terminal; decisions need a terminal")]
    NoTerminal { pid: i32 },
    #[error("process {pid} was started by an AI client (process {client}); ask the person")]
    BelowClient { pid: i32, client: i32 },
    #[error(
        "process {pid} may have been started and detached by an AI client (process {client}); answer in a terminal that was \
         open before the client started, or end the client and wait until its questions expire"
    )]
    Orphan { pid: i32, client: i32 },
}

/// The process of an AI client, recorded when it connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub pid: i32,
    /// Start time in ticks since boot. It distinguishes the process from a later one with the same
    /// pid.
    pub started: u64,
    pub cgroup: String,
}

pub fn recognise(peer: Peer, clients: &[Client], look: impl Fn(i32) -> Option<Process>) -> Result<Person, NotAPerson> {
    let pid = peer.pid.ok_or(NotAPerson::Unknown)?;
    let process = look(pid).ok_or(NotAPerson::Unknown)?;
    if !process.has_terminal {
        return Err(NotAPerson::NoTerminal { pid });
    }
    let chain = ancestors(pid, process, look);
    for client in clients {
        if chain.iter().any(|(at, it)| *at == client.pid && it.started.is_none_or(|it| it == client.started)) {
            return Err(NotAPerson::BelowClient { pid, client: client.pid });
        }
        if may_be_orphan_of(client, &chain) {
            return Err(NotAPerson::Orphan { pid, client: client.pid });
        }
    }
    Ok(Person { uid: peer.uid })
}

/// The process and its ancestors, up to the service manager.
fn ancestors(pid: i32, process: Process, look: impl Fn(i32) -> Option<Process>) -> Vec<(i32, Process)> {
    let mut chain = vec![(pid, process)];
    // The limit stops a loop, which can occur when pids are reused during the walk.
    while chain.len() < MAX_DEPTH {
        let Some((_, last)) = chain.last().filter(|(_, it)| !it.is_service_manager) else { break };
        let parent = last.parent;
        let Some(process) = look(parent) else { break };
        chain.push((parent, process));
    }
    chain
}

/// Whether the last process in the chain that is younger than the client may be an orphan of the
/// client.
fn may_be_orphan_of(client: &Client, chain: &[(i32, Process)]) -> bool {
    let younger = |it: &Process| it.started.is_some_and(|it| it >= client.started);
    let Some(old) = chain.iter().position(|(_, it)| it.is_service_manager || !younger(it)) else { return false };
    let Some((_, adopted)) = old.checked_sub(1).and_then(|at| chain.get(at)) else { return false };
    let is_adopter = chain.get(old).is_some_and(|(_, it)| it.is_service_manager);
    is_adopter && (adopted.cgroup == client.cgroup || is_transient(&adopted.cgroup))
}

/// Whether this is a unit of `systemd-run`, which any process can create.
fn is_transient(cgroup: &str) -> bool {
    cgroup.split(['/', '\n']).any(|it| it.starts_with("run-"))
}

const MAX_DEPTH: usize = 512;

/// The process that started a proxy. If that process is only a wrapper, also its parent.
pub fn starters(proxy: i32, look: impl Fn(i32) -> Option<Process>) -> Vec<i32> {
    let mut starters = Vec::new();
    let mut at = look(proxy).map(|it| it.parent);
    while let Some(pid) = at
        && let Some(process) = look(pid).filter(|_| starters.len() < MAX_DEPTH)
    {
        starters.push(pid);
        at = process.is_wrapper.then_some(process.parent);
    }
    starters
}

/// The client record of a process; `None` if it has ended or is a service manager.
pub fn client(pid: i32) -> Option<Client> {
    let process = processes::find(pid).filter(|it| !it.is_service_manager)?;
    Some(Client { pid, started: process.started.unwrap_or(0), cgroup: process.cgroup })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// pid, parent, terminal, start, cgroup
    type Row = (i32, i32, bool, u64, &'static str);

    fn tree(rows: &'static [Row]) -> impl Fn(i32) -> Option<Process> {
        move |pid| {
            rows.iter().find(|row| row.0 == pid).map(|&(pid, parent, has_terminal, started, cgroup)| Process {
                parent,
                has_terminal,
                is_service_manager: pid == 1,
                started: Some(started),
                cgroup: cgroup.into(),
                is_wrapper: pid % 100 == 99,
            })
        }
    }

    fn client(pid: i32, started: u64) -> Client {
        Client { pid, started, cgroup: "client.scope".into() }
    }

    fn ask(pid: i32, clients: &[Client], look: impl Fn(i32) -> Option<Process>) -> Result<Person, NotAPerson> {
        recognise(Peer { uid: 7, pid: Some(pid) }, clients, look)
    }

    const SHELL: &[Row] = &[
        (1, 0, false, 0, ""),
        (10, 1, false, 5, "client.scope"),
        (20, 10, true, 8, "client.scope"),
        (30, 20, true, 9, "client.scope"),
        (40, 10, false, 6, "client.scope"),
    ];

    #[test]
    fn a_command_at_a_terminal_is_a_person() {
        assert_eq!(ask(30, &[], tree(SHELL)), Ok(Person { uid: 7 }));
        // A client elsewhere in the process tree has no influence.
        assert_eq!(ask(30, &[client(40, 6)], tree(SHELL)), Ok(Person { uid: 7 }));
    }

    #[test]
    fn without_a_terminal_nobody_decides() {
        assert_eq!(ask(40, &[], tree(SHELL)), Err(NotAPerson::NoTerminal { pid: 40 }));
        assert_eq!(ask(99, &[], tree(SHELL)), Err(NotAPerson::Unknown));
        let peer = Peer { uid: 7, pid: None };
        assert_eq!(recognise(peer, &[], tree(SHELL)), Err(NotAPerson::Unknown));
    }

    #[test]
    fn below_an_ai_client_nobody_decides() {
        assert_eq!(ask(30, &[client(10, 5)], tree(SHELL)), Err(NotAPerson::BelowClient { pid: 30, client: 10 }));
        assert_eq!(ask(30, &[client(30, 9)], tree(SHELL)), Err(NotAPerson::BelowClient { pid: 30, client: 30 }));
    }

    #[test]
    fn a_later_process_with_the_pid_of_a_client_is_not_it() {
        assert_eq!(ask(30, &[client(10, 4)], tree(SHELL)), Err(NotAPerson::Orphan { pid: 30, client: 10 }));
        const LATER: &[Row] = &[(1, 0, false, 0, ""), (5, 1, false, 1, ""), (10, 5, true, 9, "")];
        assert_eq!(ask(10, &[client(10, 4)], tree(LATER)), Ok(Person { uid: 7 }));
    }

    /// The client (pid 50, started at 100) and terminals at various places.
    const DESKTOP: &[Row] = &[
        (1, 0, false, 0, ""),
        (50, 1, false, 100, "client.scope"),
        // Opened before the client: a terminal whose parent is the service manager.
        (60, 1, false, 90, "client.scope"),
        (61, 60, true, 200, "client.scope"),
        // A new terminal emulator in its own scope.
        (70, 1, false, 200, "terminal.scope"),
        (71, 70, true, 201, "terminal.scope"),
        // A new window of the terminal emulator that was opened before the client.
        (81, 60, true, 300, "client.scope"),
        // Processes that a client detached, directly and inside `script`.
        (90, 1, true, 200, "client.scope"),
        (91, 90, false, 201, "client.scope"),
        (92, 91, true, 202, "client.scope"),
        // A process that was started with `systemd-run`.
        (95, 1, true, 200, "0::/user.slice/run-u12.service"),
    ];

    #[test]
    fn an_orphan_of_a_client_is_refused_and_a_new_window_is_not() {
        let asked = |pid| ask(pid, &[client(50, 100)], tree(DESKTOP)).is_ok();
        assert_eq!([61, 71, 81].map(asked), [true; 3]);
        assert_eq!([90, 92, 95].map(asked), [false; 3]);
        assert_eq!(
            ask(92, &[], tree(DESKTOP)),
            Ok(Person { uid: 7 }),
            "a terminal does not count as a person, although no client is known"
        );
    }

    #[test]
    fn a_client_behind_a_wrapper_is_found() {
        const WRAPPED: &[Row] = &[
            (1, 0, false, 0, ""),
            (50, 1, false, 1, ""),
            (199, 50, false, 2, ""),
            (299, 199, false, 3, ""),
            (60, 299, false, 4, ""),
        ];
        assert_eq!(starters(60, tree(WRAPPED)), [299, 199, 50]);
        assert_eq!(starters(199, tree(WRAPPED)), [50]);
    }

    #[test]
    fn a_loop_of_reused_pids_ends() {
        const LOOP: &[Row] = &[(5, 6, true, 1, ""), (6, 5, true, 1, "")];
        assert_eq!(ask(5, &[], tree(LOOP)), Ok(Person { uid: 7 }));
    }
}
