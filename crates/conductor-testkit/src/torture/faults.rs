//! The faults. Each fault is injected while the worker makes calls, and is over when [`heal`]
//! returns.

use super::daemon::{self, Daemon, Disk};
use super::{Dice, call_effect, pause, until};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL.
    Killed,
    /// SIGTERM: the daemon shuts down normally.
    Terminated,
    /// SIGSTOP, later SIGCONT.
    Stopped,
    /// SIGKILL, and the last line of the audit log is half written.
    TornLine,
    /// SIGKILL, and the last sector of the audit log contains zeros.
    TornSector,
    DiskFull,
    HomeReadOnly,
    FsyncFails,
    ShortWrites,
    WritesFail,
    ClockForward,
    ClockBack,
    /// Datagrams that are duplicated, truncated or damaged.
    BadDatagrams,
    HalfOpenSockets,
    ManyClients,
    ClientsThatNeverRead,
    FewDescriptors,
    ConfigRewritten,
    /// The daemon is killed while its configuration file is rewritten.
    ConfigRewrittenAndKilled,
}

impl Fault {
    pub const ALL: [Fault; 19] = [
        Fault::Killed,
        Fault::Terminated,
        Fault::Stopped,
        Fault::TornLine,
        Fault::TornSector,
        Fault::DiskFull,
        Fault::HomeReadOnly,
        Fault::FsyncFails,
        Fault::ShortWrites,
        Fault::WritesFail,
        Fault::ClockForward,
        Fault::ClockBack,
        Fault::BadDatagrams,
        Fault::HalfOpenSockets,
        Fault::ManyClients,
        Fault::ClientsThatNeverRead,
        Fault::FewDescriptors,
        Fault::ConfigRewritten,
        Fault::ConfigRewrittenAndKilled,
    ];

    /// Whether the process of the daemon ends without a chance to release notes.
    pub fn kills(self) -> bool {
        matches!(self, Fault::Killed | Fault::TornLine | Fault::TornSector | Fault::ConfigRewrittenAndKilled)
    }
}

/// The configured value and OSC port of the daemon, and the offset of its clock.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// The value that both pads send.
    pub value: u8,
    pub osc_port: u16,
    pub clock_ms: i64,
}

pub fn free_udp_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").and_then(|it| it.local_addr()).map_or(0, |it| it.port())
}

pub fn inject(fault: Fault, daemon: &mut Daemon, dice: &mut Dice, world: &mut World) -> Result<(), String> {
    pause(dice.below(60));
    let home = daemon.home.clone();
    match fault {
        Fault::Killed => daemon.end(Signal::KILL),
        Fault::Terminated => daemon.end(Signal::TERM),
        Fault::Stopped => {
            daemon.signal(Signal::STOP);
            pause(100 + dice.below(400));
            daemon.signal(Signal::CONT);
        }
        Fault::TornLine | Fault::TornSector => {
            daemon.end(Signal::KILL);
            let segment = daemon.segment().ok_or("there is no audit log")?;
            let bytes = fs::read(&segment).map_err(|it| it.to_string())?;
            let last = bytes.trim_ascii_end().rsplit(|it| *it == b'\n').next().unwrap_or_default();
            let torn = if fault == Fault::TornLine {
                last[..dice.below(last.len() as u64) as usize].to_vec()
            } else {
                vec![0; 1 + dice.below(511) as usize]
            };
            let file = File::options().append(true).open(&segment);
            file.and_then(|mut it| it.write_all(&torn)).map_err(|it| it.to_string())?;
        }
        Fault::DiskFull => {
            let ballast = home.join("ballast");
            let mut file = File::create(&ballast).map_err(|it| it.to_string())?;
            for size in [1 << 20, 1 << 12, 1 << 6, 1] {
                let block = vec![1; size];
                while file.write(&block).is_ok_and(|it| it == size) {}
            }
            pause(100 + dice.below(200));
            fs::remove_file(ballast).map_err(|it| it.to_string())?;
        }
        Fault::HomeReadOnly => {
            // Open files prevent a remount while the daemon runs. A disk that becomes read-only
            // under a running daemon reports errors, as the fault `WritesFail` does.
            daemon.end(Signal::TERM);
            if !daemon::remount(&home, "ro") {
                return Err("the home cannot be made read-only".to_owned());
            }
            // A daemon without a writable home may refuse to start, or run without a log.
            let _ = daemon.start();
            pause(100);
            daemon.end(Signal::KILL);
            daemon::remount(&home, "rw");
        }
        Fault::FsyncFails => disk_fails(daemon, dice, Disk::FsyncFails),
        Fault::ShortWrites => disk_fails(daemon, dice, Disk::ShortWrites),
        Fault::WritesFail => disk_fails(daemon, dice, Disk::WritesFail),
        Fault::ClockForward | Fault::ClockBack => {
            let step = 1 + dice.below(86_400_000 * 3) as i64;
            world.clock_ms += if fault == Fault::ClockForward { step } else { -step };
            daemon.set_clock(world.clock_ms);
            pause(100);
        }
        Fault::BadDatagrams => bad_datagrams(dice, world.osc_port)?,
        Fault::HalfOpenSockets => {
            let head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Le";
            let mut open: Vec<Box<dyn Write>> = Vec::new();
            for _ in 0..10 + dice.below(20) {
                if let Ok(mut it) = UnixStream::connect(home.join("mcp.sock")) {
                    let _ = it.write_all(br#"{"jsonrpc":"2.0","id":1,"meth"#);
                    let _ = it.shutdown(Shutdown::Read);
                    open.push(Box::new(it));
                }
                if let Ok(mut it) = TcpStream::connect(&daemon.http) {
                    let _ = it.write_all(&head[..1 + dice.below(head.len() as u64 - 1) as usize]);
                    open.push(Box::new(it));
                }
            }
            pause(50);
        }
        Fault::ManyClients => {
            let mut clients: Vec<UnixStream> =
                (0..500).filter_map(|_| UnixStream::connect(home.join("mcp.sock")).ok()).collect();
            for (id, client) in clients.iter_mut().enumerate() {
                let _ = client.set_read_timeout(Some(daemon::PATIENCE));
                let _ = writeln!(client, r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            }
            for client in &mut clients {
                // The client must get an answer, or a closed connection if there are too many
                // clients.
                if let Err(error) = client.read(&mut [0; 512])
                    && matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
                {
                    return Err("one of 500 clients got no answer".to_owned());
                }
            }
        }
        Fault::ClientsThatNeverRead => {
            let mut open = Vec::new();
            for _ in 0..4 {
                let Ok(mut client) = UnixStream::connect(home.join("mcp.sock")) else { continue };
                let _ = client.set_nonblocking(true);
                let line = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"conductor_list_templates\",\"params\":{}}\n";
                for _ in 0..3000 {
                    if client.write_all(line.as_bytes()).is_err() {
                        break;
                    }
                }
                open.push(client);
            }
            pause(200);
        }
        Fault::FewDescriptors => {
            let pid = Pid::from_raw(daemon.pid() as i32);
            let (soft, hard) = daemon.descriptor_limits().ok_or("the limits cannot be read")?;
            let few = daemon.resources().descriptors as u64 + dice.below(6);
            let limit = |current| {
                let new = Rlimit { current: Some(current), maximum: Some(hard) };
                prlimit(pid, Resource::Nofile, new).map_err(|it| format!("prlimit: {it}"))
            };
            limit(few.min(soft))?;
            let open: Vec<_> = (0..40).filter_map(|_| UnixStream::connect(home.join("mcp.sock")).ok()).collect();
            pause(200);
            drop(open);
            limit(soft)?;
        }
        Fault::ConfigRewritten | Fault::ConfigRewrittenAndKilled => {
            let kill_at = if fault == Fault::ConfigRewrittenAndKilled { dice.below(20) } else { u64::MAX };
            for round in 0..20 {
                if round == kill_at {
                    daemon.end(Signal::KILL);
                }
                world.value = 1 + (world.value + dice.below(100) as u8) % 120;
                rewrite(daemon, world, dice)?;
                pause(dice.below(30));
            }
        }
    }
    Ok(())
}

/// Makes the disk fail for a short time.
fn disk_fails(daemon: &mut Daemon, dice: &mut Dice, how: Disk) {
    daemon.set_disk(how);
    pause(100 + dice.below(200));
    daemon.set_disk(Disk::Works);
}

/// Writes the configuration in two pieces, as some editors do. The first piece ends at a random
/// place after `[[modes]]`, so that the first piece alone may be a valid file.
fn rewrite(daemon: &Daemon, world: &World, dice: &mut Dice) -> Result<(), String> {
    let text = daemon::config(world.value, world.osc_port);
    let modes = text.find("[[modes]]").unwrap_or(0);
    let cut = modes + dice.below((text.len() - modes) as u64) as usize;
    let write = || -> std::io::Result<()> {
        let mut file = File::create(daemon.home.join("config.toml"))?;
        file.write_all(&text.as_bytes()[..cut])?;
        pause(2);
        file.write_all(&text.as_bytes()[cut..])
    };
    write().map_err(|it| it.to_string())
}

fn bad_datagrams(dice: &mut Dice, port: u16) -> Result<(), String> {
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(|it| it.to_string())?;
    let good = b"/fader/1\0\0\0\0,f\0\0\x3f\0\0\0";
    let bundle = [&b"#bundle\0\0\0\0\0\0\0\0\x01\0\0\0\x14"[..], good].concat();
    for _ in 0..200 {
        let source = if dice.below(2) == 0 { &good[..] } else { &bundle };
        let mut packet = source.to_vec();
        match dice.below(4) {
            0 => packet.truncate(dice.below(packet.len() as u64) as usize),
            1 => {
                let at = dice.below(packet.len() as u64) as usize;
                packet[at] ^= 1 << dice.below(8);
            }
            _ => {}
        }
        for _ in 0..=dice.below(2) {
            let _ = socket.send_to(&packet, ("127.0.0.1", port));
        }
    }
    Ok(())
}

/// Starts the daemon if it has ended, and waits until a call with an effect succeeds.
pub fn heal(daemon: &mut Daemon) -> Result<(), String> {
    if !daemon.is_running() {
        daemon.start()?;
    }
    until(1200, || {
        let mut client = daemon.client()?;
        let _ = client.set_patience(Some(Duration::from_secs(5)));
        call_effect(&mut client).map_err(|it| format!("calls still fail: {it}"))
    })
}
