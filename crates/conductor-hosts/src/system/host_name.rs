//! The names and addresses under which other machines can reach this one.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

/// The names of this machine, the most useful first: its name, its mDNS name, and the address of
/// the interface that leads to other networks.
pub fn names() -> Vec<String> {
    let name = gethostname::gethostname().to_string_lossy().to_lowercase();
    let mut names = Vec::new();
    if !name.is_empty() && name != "localhost" {
        if !name.contains('.') {
            names.push(format!("{name}.local"));
        }
        names.insert(0, name);
    }
    names.extend(outward_address().map(|it| it.to_string()));
    names
}

/// The address of the interface that leads to other networks. Connecting a UDP socket sends no
/// packet; it only selects the interface. The target is an address that is reserved for
/// documentation.
fn outward_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}
