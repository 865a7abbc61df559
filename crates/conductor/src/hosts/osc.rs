//! Sending OSC over UDP, one message per datagram.
//!
//! Not here: listening, and matching addresses (`conductor_core::event::osc`).

use conductor_core::event::{OscArg, OscMessage};
use rosc::{OscPacket, OscType};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Two sockets, because one of each family reaches everything; made when first needed.
#[derive(Default)]
pub struct OscOut {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
}

/// The address of a host that can be told without asking anyone. Other names need a resolver, which may block for seconds.
pub fn literal(host: &str) -> Option<IpAddr> {
    if host.eq_ignore_ascii_case("localhost") {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    host.parse().ok()
}

impl OscOut {
    /// Never waits: a full socket buffer is an error, as for any datagram that the network drops.
    pub fn send(&mut self, to: SocketAddr, message: &OscMessage) -> io::Result<()> {
        let bytes = encode(message)?;
        let (place, any) = match to {
            SocketAddr::V4(_) => (&mut self.v4, IpAddr::from(Ipv4Addr::UNSPECIFIED)),
            SocketAddr::V6(_) => (&mut self.v6, IpAddr::from(Ipv6Addr::UNSPECIFIED)),
        };
        let socket = match place {
            Some(socket) => socket,
            None => {
                let socket = UdpSocket::bind((any, 0))?;
                socket.set_nonblocking(true)?;
                place.insert(socket)
            }
        };
        socket.send_to(&bytes, to).map(|_| ())
    }
}

pub fn encode(message: &OscMessage) -> io::Result<Vec<u8>> {
    let args = message.args.iter().map(|arg| match arg {
        OscArg::Int(value) => OscType::Int(*value),
        OscArg::Float(value) => OscType::Float(*value),
        OscArg::Text(value) => OscType::String(value.clone()),
        OscArg::Bool(value) => OscType::Bool(*value),
    });
    let packet = OscPacket::Message(rosc::OscMessage { addr: message.address.clone(), args: args.collect() });
    rosc::encoder::encode(&packet).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_as_the_standard_writes_it() {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        let message = OscMessage { address: "/a".into(), args: vec![OscArg::Int(1), OscArg::Text("x".into())] };
        OscOut::default().send(peer.local_addr().unwrap(), &message).unwrap();
        let mut bytes = [0; 64];
        let length = peer.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"/a\0\0,is\0\0\0\0\x01x\0\0\0");
    }

    #[test]
    fn only_names_need_a_resolver() {
        assert_eq!(literal("127.0.0.1"), Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(literal("localhost"), Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(literal("::1"), Some(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(literal("studio.local"), None);
    }
}
