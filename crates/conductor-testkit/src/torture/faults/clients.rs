//! Clients that open many connections, break off in the middle of a message, or never read.

use crate::torture::{Stage, daemon, pause};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

fn connect(stage: &Stage) -> Option<UnixStream> {
    UnixStream::connect(stage.daemon.home.join("mcp.sock")).ok()
}

pub fn half_open(stage: &mut Stage) {
    let head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Le";
    let mut open: Vec<Box<dyn Write>> = Vec::new();
    for _ in 0..10 + stage.dice.below(20) {
        if let Some(mut it) = connect(stage) {
            let _ = it.write_all(br#"{"jsonrpc":"2.0","id":1,"meth"#);
            let _ = it.shutdown(Shutdown::Read);
            open.push(Box::new(it));
        }
        let length = 1 + stage.dice.below(head.len() as u64 - 1) as usize;
        if let Ok(mut it) = TcpStream::connect(&stage.daemon.http) {
            let _ = it.write_all(&head[..length]);
            open.push(Box::new(it));
        }
    }
    pause(50);
}

pub fn many(stage: &mut Stage) -> Result<(), String> {
    let mut clients: Vec<UnixStream> = (0..500).filter_map(|_| connect(stage)).collect();
    for (id, client) in clients.iter_mut().enumerate() {
        let _ = client.set_read_timeout(Some(daemon::PATIENCE));
        let _ = writeln!(client, r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    }
    for client in &mut clients {
        // The client must get an answer, or a closed connection if there are too many clients.
        if let Err(error) = client.read(&mut [0; 512])
            && matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
        {
            return Err("one of 500 clients got no answer".to_owned());
        }
    }
    Ok(())
}

pub fn never_read(stage: &mut Stage) {
    let mut open = Vec::new();
    for _ in 0..4 {
        let Some(mut client) = connect(stage) else { continue };
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

pub fn few_descriptors(stage: &mut Stage) -> Result<(), String> {
    let pid = Pid::from_raw(stage.daemon.pid() as i32);
    let (soft, hard) = stage.daemon.descriptor_limits().ok_or("the limits cannot be read")?;
    let few = stage.daemon.resources().descriptors as u64 + stage.dice.below(6);
    let limit = |current| {
        let new = Rlimit { current: Some(current), maximum: Some(hard) };
        prlimit(pid, Resource::Nofile, new).map_err(|it| format!("prlimit: {it}"))
    };
    limit(few.min(soft))?;
    let open: Vec<_> = (0..40).filter_map(|_| connect(stage)).collect();
    pause(200);
    drop(open);
    limit(soft).map(|_| ())
}
