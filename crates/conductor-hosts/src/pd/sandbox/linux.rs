//! The sandbox of Pd on Linux: namespaces, Landlock and seccomp.

use super::{Kept, Network, PdAudio, Sandbox, Sound, Walls};
use crate::confine::{self, Rules};
use crate::system::open_files;
use landlock::{AccessFs, AccessNet, BitFlags, NetPort, RulesetCreated, RulesetCreatedAttr, path_beneath_rules};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{BpfProgram, SeccompAction, SeccompCmpOp};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Paths that every Pd may read: libraries, Pd's own files, and the files for resolving
/// `localhost`. Missing paths are left out.
const READ: [&str; 14] = [
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/nix/store",
    "/usr/share/puredata",
    "/etc/ld.so.cache",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/dev/urandom",
];
/// Pd's own folders, relative to the folder of its program.
const OWN: [&str; 4] = ["../lib/pd", "../lib/puredata", "../extra", "../share/puredata"];

/// The port of our listener in a namespace, where no other program uses a port.
const PORT_WITHIN: u16 = 5400;

pub fn protection(walls: Walls, audio: PdAudio) -> Kept {
    let network = if walls.namespace && has_namespaces() {
        Network::Namespace
    } else if walls.ports && confine::knows_ports() {
        Network::Port
    } else {
        Network::Open
    };
    Kept { paths: confine::knows_paths(), network, calls: true, audio }
}

pub fn spawn(sandbox: &Sandbox<'_>, kept: Kept, command: impl Fn(u16) -> Command) -> io::Result<(Child, TcpListener)> {
    let outside = match kept.network {
        Network::Namespace => None,
        Network::Port | Network::Open => Some(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?),
    };
    let port = outside.as_ref().map_or(Ok(PORT_WITHIN), |it| it.local_addr().map(|it| it.port()))?;
    let mut rules = Some(landlock(sandbox, port)?);
    let filter = seccomp(sandbox.audio)?;
    let open_files = open_files::at_start();
    let (ours, theirs) = UnixStream::pair()?;
    let namespace = outside.is_none().then(Namespace::of_this_user);
    let mut command = command(port);
    // SAFETY: between fork and exec only system calls are made, on memory that was prepared
    // before.
    unsafe {
        command.pre_exec(move || {
            if let Some(namespace) = &namespace {
                give_away(&theirs, namespace.enter()?.as_fd())?;
            }
            enter(rules.take(), &filter, open_files)
        });
    }
    let child = command.spawn()?;
    // `command` owns the other end of the socket pair and the ruleset, so drop it now.
    drop(command);
    let listener = match outside {
        Some(listener) => Ok(listener),
        None => take(&ours),
    };
    listener.map(|it| (child, it))
}

/// Enters the sandbox. This cannot be undone, and applies to all child processes.
fn enter(rules: Option<RulesetCreated>, filter: &BpfProgram, open_files: Rlimit) -> io::Result<()> {
    // SAFETY: the call uses no memory. It only marks descriptors, which exec then closes.
    if unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // If the user is root, Pd gets none of root's capabilities, such as the right to ignore the
    // permissions of files. For other users the call may fail, and Pd has no capabilities anyway.
    // SAFETY: passes a number and no memory. 3 is SECBIT_NOROOT and its lock bit.
    unsafe { libc::prctl(libc::PR_SET_SECUREBITS, 3, 0, 0, 0) };
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // Set this limit after the namespace is entered, because opening its socket may need a
    // descriptor above the limit.
    setrlimit(Resource::Nofile, open_files)?;
    let rules = rules.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    rules.restrict_self().map_err(|_| io::Error::from_raw_os_error(libc::ENOTRECOVERABLE))?;
    seccompiler::apply_filter(filter).map_err(|_| io::Error::from_raw_os_error(libc::ENOTRECOVERABLE))
}

/// Whether a process may create a user namespace and a network namespace.
pub fn has_namespaces() -> bool {
    let namespace = Namespace::of_this_user();
    let mut command = Command::new("/");
    // SAFETY: as in `spawn`. The error that is returned here ends the child before it runs a
    // program.
    unsafe {
        command.pre_exec(move || {
            namespace.enter()?;
            Err(io::Error::from_raw_os_error(libc::ECANCELED))
        });
    }
    command.spawn().is_err_and(|fault| fault.raw_os_error() == Some(libc::ECANCELED))
}

/// A user namespace and a network namespace for one process.
struct Namespace {
    users: String,
    groups: String,
}

impl Namespace {
    /// The user id stays the same inside, because it is part of the names of JACK's sockets.
    fn of_this_user() -> Self {
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Namespace { users: format!("{user} {user} 1"), groups: format!("{group} {group} 1") }
    }

    /// Enters the namespaces. Returns a listener on the loopback address of the new network.
    fn enter(&self) -> io::Result<OwnedFd> {
        // SAFETY: the calling process has one thread: it was just forked.
        checked(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) })?;
        put(c"/proc/self/setgroups", "deny")?;
        put(c"/proc/self/uid_map", &self.users)?;
        put(c"/proc/self/gid_map", &self.groups)?;
        // SAFETY: plain system calls on memory of this function.
        unsafe {
            let socket = checked(libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0))?;
            let socket = OwnedFd::from_raw_fd(socket);
            let raw = std::os::fd::AsRawFd::as_raw_fd(&socket);
            let mut loopback: libc::ifreq = std::mem::zeroed();
            loopback.ifr_name[0] = b'l' as libc::c_char;
            loopback.ifr_name[1] = b'o' as libc::c_char;
            loopback.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
            checked(libc::ioctl(raw, libc::SIOCSIFFLAGS, &raw const loopback))?;
            let mut address: libc::sockaddr_in = std::mem::zeroed();
            address.sin_family = libc::AF_INET as libc::sa_family_t;
            address.sin_port = PORT_WITHIN.to_be();
            address.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
            let length = std::mem::size_of::<libc::sockaddr_in>() as libc::socklen_t;
            checked(libc::bind(raw, (&raw const address).cast(), length))?;
            checked(libc::listen(raw, 1))?;
            Ok(socket)
        }
    }
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn put(path: &std::ffi::CStr, text: &str) -> io::Result<()> {
    let file =
        rustix::fs::open(path, rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
    rustix::io::write(&file, text.as_bytes())?;
    Ok(())
}

fn give_away(to: &UnixStream, socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let sockets = [socket];
    control.push(SendAncillaryMessage::ScmRights(&sockets));
    sendmsg(to, &[IoSlice::new(b"l")], &mut control, SendFlags::empty())?;
    Ok(())
}

fn take(from: &UnixStream) -> io::Result<TcpListener> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT)?;
    let sockets = control
        .drain()
        .find_map(|it| if let RecvAncillaryMessage::ScmRights(mut sockets) = it { sockets.next() } else { None });
    sockets.map(TcpListener::from).ok_or_else(|| io::Error::other("the namespace returned no listener"))
}

fn landlock(sandbox: &Sandbox<'_>, port: u16) -> io::Result<RulesetCreated> {
    let fail = io::Error::other;
    let ports = sandbox.walls.ports && confine::knows_ports();
    let set = if ports { confine::forbid_paths_and_ports() } else { confine::forbid_paths() }?;
    let mut set = set.create().map_err(fail)?;
    if ports {
        set = set.add_rule(NetPort::new(port, AccessNet::ConnectTcp)).map_err(fail)?;
    }
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    // Pd may not create links, sockets or pipes in the patch folders, because the daemon reads
    // these folders too.
    let patches = read
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir;
    let devices = patches | AccessFs::MakeSock | AccessFs::MakeFifo | AccessFs::IoctlDev;
    let programs = [sandbox.program.to_owned(), loader_of(sandbox.program)?];
    let own = sandbox.program.parent().into_iter().flat_map(|it| OWN.iter().map(|own| it.join(own)));
    let sound = Sound::of(sandbox.audio);
    let readable = READ.iter().map(PathBuf::from).chain(own).chain(sound.read.iter().flat_map(|it| sandbox.place(it)));
    let all: [(Vec<PathBuf>, BitFlags<AccessFs>); 4] = [
        (programs.to_vec(), AccessFs::Execute | AccessFs::ReadFile),
        (readable.collect(), read),
        (sound.written.iter().map(PathBuf::from).collect(), devices),
        (sandbox.folders.to_vec(), patches),
    ];
    for (paths, access) in all {
        set = set.add_rules(path_beneath_rules(paths, access)).map_err(fail)?;
    }
    Ok(set)
}

impl Sandbox<'_> {
    /// Expands a path of the audio lists.
    fn place(&self, path: &str) -> Vec<PathBuf> {
        if let Some(rest) = path.strip_prefix("~/") {
            self.user_home.map(|it| it.join(rest)).into_iter().collect()
        } else if let Some(rest) = path.strip_prefix("$/") {
            self.runtime.iter().map(|it| it.join(rest)).collect()
        } else {
            vec![path.into()]
        }
    }
}

/// The ELF interpreter, which the kernel starts to load the program.
fn loader_of(program: &Path) -> io::Result<PathBuf> {
    let wrong = || {
        let text = format!(
            "{} is not a program for this machine; set `[patch.pd] command` to Pd's program, not to a script",
            program.display()
        );
        io::Error::other(text)
    };
    let mut head = Vec::new();
    File::open(program)?.take(64 << 10).read_to_end(&mut head)?;
    let number = |at: usize, size: usize| {
        let mut bytes = [0; 8];
        let from = head.get(at..at.checked_add(size)?)?;
        bytes.get_mut(..size)?.copy_from_slice(from);
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    };
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return Err(wrong());
    }
    let find = || {
        let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        (0..count).map(|n| table + n * size).find_map(|at| {
            // Type 3 is `PT_INTERP`.
            if number(at, 4)? != 3 {
                return None;
            }
            let (from, length) = (number(at + 8, 8)?, number(at + 32, 8)?);
            let name = head.get(from..from.checked_add(length)?)?.split(|it| *it == 0).next()?;
            Some(PathBuf::from(OsStr::from_bytes(name)))
        })
    };
    find().ok_or_else(wrong)
}

/// System calls that are refused with EPERM. Landlock does not cover them, or not in every
/// version.
const REFUSED: &[i64] = &[
    // Calls that affect other processes of this user, such as the daemon.
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    // Calls that change files by path.
    libc::SYS_truncate,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_utimensat,
    libc::SYS_inotify_init1,
    libc::SYS_fanotify_init,
    libc::SYS_open_by_handle_at,
    // Calls that bypass the socket rules, and calls for kernel keys.
    libc::SYS_io_uring_setup,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_mq_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_inotify_init,
];
/// System calls that are refused unless audio is used. Clients of sound servers need them,
/// because they listen on local sockets and share memory.
const REFUSED_WITHOUT_SOUND: &[i64] = &[
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_semget,
    libc::SYS_msgget,
];
/// With this flag, a send call connects the socket, and Landlock does not check that.
const FASTOPEN: u64 = libc::MSG_FASTOPEN as u64;

fn seccomp(audio: PdAudio) -> io::Result<BpfProgram> {
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let inet = libc::AF_INET as u64;
    let unix = libc::AF_UNIX as u64;
    let mut sockets = match audio {
        PdAudio::Off => {
            rules.extend(REFUSED_WITHOUT_SOUND.iter().map(|call| (*call, Vec::new())));
            vec![confine::all([(0, SeccompCmpOp::Ne, inet)])?]
        }
        PdAudio::Default | PdAudio::Jack => {
            vec![confine::all([(0, SeccompCmpOp::Ne, inet), (0, SeccompCmpOp::Ne, unix)])?]
        }
    };
    // Allow only stream sockets. The low four bits are the kind; flags are in higher bits.
    for kind in (0..16).filter(|it| *it != libc::SOCK_STREAM as u64) {
        sockets.push(confine::all([(1, SeccompCmpOp::MaskedEq(15), kind)])?);
    }
    // Allow only plain TCP, because Landlock's port rules do not cover MPTCP or SCTP.
    let tcp = libc::IPPROTO_TCP as u64;
    sockets.push(confine::all([(0, SeccompCmpOp::Eq, inet), (2, SeccompCmpOp::Ne, 0), (2, SeccompCmpOp::Ne, tcp)])?);
    rules.insert(libc::SYS_socket, sockets);
    for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        rules.insert(call, vec![confine::all([(flags, SeccompCmpOp::MaskedEq(FASTOPEN), FASTOPEN)])?]);
    }
    rules.insert(libc::SYS_prlimit64, vec![confine::all([(0, SeccompCmpOp::Ne, 0)])?]);
    // Some kernels also have the x32 table of system calls (64-bit code with 32-bit pointers),
    // so add its numbers.
    #[cfg(target_arch = "x86_64")]
    {
        let twins: Vec<_> = rules.iter().map(|(call, rules)| (call | 0x4000_0000, rules.clone())).collect();
        rules.extend(twins);
    }
    confine::filter(rules, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32))
}
