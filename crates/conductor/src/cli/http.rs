//! `conductor http`: shows how other machines connect to this daemon.

use super::call::tool;
use super::{Failure, Verdict, list, offline, out::Out, text};
use crate::home::Home;
use clap::Subcommand;
use conductor_hosts::system::host_name;
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use serde_json::{Value, json};

#[derive(Debug, Subcommand)]
pub enum HttpCommand {
    /// Show the address and the fingerprint of the certificate, as text and as QR code
    Pair,
}

pub fn run(command: HttpCommand, home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    match command {
        HttpCommand::Pair => pair(home, out),
    }
}

fn pair(home: &Home, out: &mut Out) -> Result<Verdict, Failure> {
    let status = tool(home, out, "conductor_get_status", json!({}))?;
    let found = list(&status, "http").iter().find_map(|it| Some((text(it, "url"), it["fingerprint"].as_str()?)));
    let Some((url, fingerprint)) = found else {
        let text = "no listener uses TLS; add [http.tls] with self_signed = true, or with a certificate and its key";
        return Err(Failure::Text(text.to_owned()));
    };
    let hosts = offline(home)?.config.http.hosts.clone();
    let port = url.rsplit_once(':').map_or("", |(_, port)| port);
    let urls: Vec<String> = match hosts.as_slice() {
        [] => vec![url.to_owned()],
        hosts => hosts.iter().map(|host| format!("https://{host}")).collect(),
    };
    let proposed: Vec<String> = host_name::names().into_iter().map(|it| format!("{it}:{port}")).collect();
    let link = format!("{}/#{fingerprint}", urls.first().map_or(url, String::as_str));
    let answer = json!({ "urls": urls, "fingerprint": fingerprint, "qr": link, "proposed_hosts": proposed });
    out.show(&answer, |out, answer| {
        for url in list(answer, "urls").iter().filter_map(Value::as_str) {
            out.line(format_args!("address      {url}"))?;
        }
        out.line(format_args!("fingerprint  {fingerprint}"))?;
        out.line(format_args!("             {}", as_browsers_show(fingerprint)))?;
        if let Some(picture) = qr_code(&link) {
            out.line(picture)?;
        }
        out.line("Compare the fingerprint with the one that the browser or client shows before you send a token.")?;
        if hosts.is_empty() {
            let names = proposed.iter().map(|it| format!("\"{it}\"")).collect::<Vec<_>>().join(", ");
            out.line("Other machines cannot connect yet, because [http] hosts is empty. The names of this machine are:")?;
            out.line(format_args!("hosts = [{names}]"))?;
        }
        Ok(())
    })
}

/// The digits in pairs, as in the certificate windows of browsers.
pub fn as_browsers_show(fingerprint: &str) -> String {
    let digits = fingerprint.trim_start_matches("sha256:").to_uppercase();
    let pairs: Vec<&str> = (0..digits.len()).step_by(2).filter_map(|at| digits.get(at..at + 2)).collect();
    pairs.join(":")
}

/// A QR code drawn with characters. `None` if the text is too long.
pub fn qr_code(text: &str) -> Option<String> {
    Some(QrCode::new(text).ok()?.render::<Dense1x2>().build())
}
