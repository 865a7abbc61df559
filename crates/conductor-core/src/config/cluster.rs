//! `[cluster]`: several rigs (machines that run Conductor) with one NATS server. Not here: the
//! connection, and the keys of this rig (`secrets/`).

use super::form::{Form, filled, named, set, text};
use super::reader::{Fields, Reader};
use super::section::{row, section, unique_rows};
use super::tree::Node;
use crate::cluster::{is_rig_name, nkey};
use crate::policy::Tier;

section! {
    /// Several rigs with one NATS server: a witness of the audit log, approvals from other rigs,
    /// and the state of each rig. Each rig works without the server.
    #[derive(Eq)]
    pub struct Cluster {
        /// Address of the NATS server: `tls://` and the server, or `nats://` on this machine.
        /// Without an address, the rig connects to no server.
        nats: Option<String> = None, filled().ruled(server).maybe(), "\"tls://venue.example:4222\"";
        /// Name of this rig. Needed if `nats` is set.
        rig: Option<String> = None, text(1..=32).ruled(rig_name).maybe(), "\"stage-left\"";
        /// File with the seed of the key for the server, or with credentials of NATS. Without a
        /// file, `secrets/rig.key` is the key. A relative path starts at the home.
        credentials: Option<String> = None, filled().maybe(), "\"secrets/venue.creds\"";
        /// File with the certificate authority of the server, as PEM. Without a file, the
        /// authorities of the system are used. A relative path starts at the home.
        ca: Option<String> = None, filled().maybe(), "\"tls/venue-ca.pem\"";
        /// Keys of people on other rigs who may answer questions of this rig.
        deciders: Vec<Decider> = Vec::new(), unique_rows(64, "name", "decider");
        /// Rigs in the configuration that `conductor rigs server-config` prints. Needed only where
        /// this command is used.
        rigs: Vec<ClusterRig> = Vec::new(), unique_rows(1000, "name", "rig");
    }
    check named_rig
}

row! {
    /// A key that may answer questions of this rig. `conductor rigs enrol` writes this section.
    #[derive(Eq)]
    pub struct Decider {
        /// Name of the rig or person, for the audit log.
        name: String, text(1..=32).ruled(rig_name), "\"desk\"";
        /// Public key, as printed by `conductor rigs key`.
        key: String, text(56..=56).ruled(public_key), "\"UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4\"";
        /// Tiers that the key may allow. Every enrolled key may deny.
        tiers: Vec<Tier> = vec![Tier::Stateful], set(named(), 1..=Tier::ALL.len()), "[\"Stateful\", \"HardwareIO\"]";
    }
}

row! {
    /// A rig that may connect to the server. `conductor rigs enrol` writes this section.
    #[derive(Eq)]
    pub struct ClusterRig {
        /// Name of the rig.
        name: String, text(1..=32).ruled(rig_name), "\"stage-left\"";
        /// Public key of the rig, as printed by `conductor rigs key`.
        key: String, text(56..=56).ruled(public_key), "\"UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4\"";
        /// Rigs whose questions this rig may send an answer to. The asked rig must also list the
        /// key in `deciders`.
        decides_for: Vec<String> = Vec::new(), set(text(1..=32).ruled(rig_name), 0..=1000), "[\"stage-right\"]";
    }
}

impl Cluster {
    /// The server and the name of this rig, if both are set.
    pub fn link(&self) -> Option<(&str, &str)> {
        self.nats.as_deref().zip(self.rig.as_deref())
    }
}

fn named_rig(mut cluster: Cluster, r: &mut Reader<'_>, f: &Fields<'_>) -> Cluster {
    if cluster.nats.is_some() && cluster.rig.is_none() {
        let place = f.peek("nats").and_then(|it| it.place.clone());
        r.under("nats", |r| {
            r.rule_help(&place, "the server needs the name of this rig".to_owned(), "add rig = \"NAME\"".to_owned())
        });
        cluster.nats = None;
    }
    cluster
}

fn rig_name<'t>(r: &mut Reader<'t>, node: &'t Node, name: String) -> Option<String> {
    if is_rig_name(&name) {
        return Some(name);
    }
    let help = "write at most 32 small letters, digits and dashes, such as \"stage-left\"";
    r.reject(node, format!("\"{name}\" is not the name of a rig"), help)
}

fn public_key<'t>(r: &mut Reader<'t>, node: &'t Node, text: String) -> Option<String> {
    match nkey::read_public(&text) {
        Ok(_) => Some(text),
        Err(why) => r.reject(node, why.to_string(), "copy the key from `conductor rigs key`"),
    }
}

/// Accepts only encrypted connections, except to this machine.
fn server<'t>(r: &mut Reader<'t>, node: &'t Node, address: String) -> Option<String> {
    let help = "write an address such as \"tls://venue.example:4222\", or \"nats://127.0.0.1:4222\" on this machine";
    let (scheme, rest) = address.split_once("://").unwrap_or(("", &address));
    let has_bad = rest.is_empty() || rest.contains(['/', '@', ' ', '?', '#', ',']);
    let host = rest.rsplit_once(':').map_or(rest, |(host, _)| host);
    let is_here = ["127.0.0.1", "localhost", "[::1]"].contains(&host);
    match scheme {
        "tls" if !has_bad => Some(address),
        "nats" if !has_bad && is_here => Some(address),
        "nats" if !has_bad => {
            r.reject(node, format!("{host} is another machine, so the connection must use TLS"), "write tls://")
        }
        _ => r.reject(node, format!("\"{address}\" is not the address of a NATS server"), help),
    }
}
