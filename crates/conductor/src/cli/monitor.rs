//! `conductor monitor`: trace records, or the bytes at a port, until interrupted.

use super::args::Monitor;
use super::{Failure, Verdict, out::Out, text};
use crate::daemon::home::Home;
use crate::doors::control::client::Client;
use serde_json::{Value, json};

pub fn run(args: Monitor, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let mut client = Client::connect(&home.control_socket())?;
    match args.port {
        Some(port) => client.ask("listen", json!({ "port": port }))?,
        None => client.ask("monitor", json!({}))?,
    };
    while let Some(item) = client.next_item()? {
        out.show(&item, |out, item| out.line(line(item)))?;
        out.finish()?;
    }
    Ok(Verdict::Good)
}

pub fn line(item: &Value) -> String {
    if let Some(bytes) = item["bytes"].as_array() {
        let hex: Vec<String> = bytes.iter().map(|it| format!("{:02X}", it.as_u64().unwrap_or(0))).collect();
        return hex.join(" ");
    }
    let parts = ["device", "event", "mapping_id", "gesture", "outcome", "action", "reason"];
    let shown: Vec<&str> = parts.iter().map(|key| text(item, key)).filter(|it| *it != "-").collect();
    shown.join(" ")
}
