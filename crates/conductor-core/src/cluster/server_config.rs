//! The streams of a NATS server for several rigs, and the server's configuration file.
//!
//! Each rig may write only to its own subjects and to the decisions that it may make. No rig may
//! create, change or delete a stream. The administrator's key can create streams, but not change or
//! delete them.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{ASKS, DECISIONS, PRESENCE, checkpoint_subject, presence_subject, record_subject, witness_stream};
use crate::config::ClusterRig;

/// The state of a rig is shown as unknown if the rig has sent nothing for this time.
pub const PRESENCE_TTL_MS: u64 = 15_000;
const MS: u64 = 1_000_000;
const DAY_NS: u64 = 86_400_000 * MS;

/// Options of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server<'a> {
    /// Address and port of the listener.
    pub listen: &'a str,
    /// Folder of the streams.
    pub store: &'a str,
    /// Files of the certificate and its key. Without these files, the server uses no TLS, and only
    /// rigs on the same machine connect to it.
    pub tls: Option<(&'a str, &'a str)>,
    /// Public key of the administrator, who creates the streams.
    pub admin: &'a str,
    /// The rigs.
    pub rigs: &'a [ClusterRig],
}

/// The name and the configuration of each stream, for `$JS.API.STREAM.CREATE`.
pub fn streams(rigs: &[ClusterRig]) -> Vec<(String, Value)> {
    let stream = |name: &str, subjects: &[String], more: Value| {
        let mut config = json!({
            "name": name, "subjects": subjects, "retention": "limits", "storage": "file", "num_replicas": 1,
            "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_msg_size": -1, "max_age": 0,
            "discard": "old", "allow_direct": true, "deny_delete": true, "deny_purge": true,
        });
        if let (Value::Object(config), Value::Object(more)) = (&mut config, more) {
            config.extend(more);
        }
        (name.to_owned(), config)
    };
    let witnesses = rigs.iter().map(|rig| {
        let subjects = [record_subject(&rig.name), checkpoint_subject(&rig.name)];
        stream(&witness_stream(&rig.name), &subjects, json!({ "duplicate_window": 120_000 * MS }))
    });
    let shared = [
        stream(ASKS, &["ask.*".to_owned()], json!({ "max_msgs_per_subject": 1, "max_age": DAY_NS })),
        // The first three keys make the server refuse a second decision about a question.
        stream(
            DECISIONS,
            &["decide.*.*".to_owned()],
            json!({
                "max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": true, "max_age": DAY_NS,
            }),
        ),
        stream(
            PRESENCE,
            &["$KV.rigs.*".to_owned()],
            json!({ "max_msgs_per_subject": 1, "max_age": PRESENCE_TTL_MS * MS, "duplicate_window": 1000 * MS }),
        ),
    ];
    witnesses.chain(shared).collect()
}

/// The subjects that a rig may write to, and those that it may read.
pub fn permissions(rig: &ClusterRig) -> (Vec<String>, Vec<String>) {
    let name = &rig.name;
    let mut publish = vec![
        record_subject(name),
        checkpoint_subject(name),
        format!("ask.{name}"),
        presence_subject(name),
        format!("evt.{name}.>"),
        format!("$JS.API.DIRECT.GET.{}", witness_stream(name)),
        format!("$JS.API.DIRECT.GET.{}.audit.{name}.*", witness_stream(name)),
        format!("$JS.API.DIRECT.GET.{DECISIONS}.decide.{name}.*"),
        format!("$JS.API.DIRECT.GET.{ASKS}"),
        format!("$JS.API.DIRECT.GET.{PRESENCE}"),
    ];
    publish.extend(rig.decides_for.iter().map(|it| format!("decide.{it}.*")));
    let subscribe =
        vec![format!("_INBOX.{name}.>"), format!("decide.{name}.*"), "ask.*".to_owned(), "evt.>".to_owned()];
    (publish, subscribe)
}

/// The configuration file of `nats-server`.
pub fn render(server: &Server<'_>) -> String {
    let Server { listen, store, tls, admin, rigs } = server;
    let mut text = String::from(
        "# Written by `conductor rigs server-config`. Rigs may write only to their own subjects and to the decisions\n\
         # that they may make. The administrator can create streams, but not change or delete them.\n",
    );
    let quoted = |it: &str| Value::from(it).to_string();
    let list = |items: &[String]| items.iter().map(|it| quoted(it)).collect::<Vec<_>>().join(", ");
    let _ = writeln!(text, "listen: {}\njetstream {{ store_dir: {} }}", quoted(listen), quoted(store));
    if let Some((certificate, key)) = tls {
        let _ = writeln!(text, "tls {{ cert_file: {}, key_file: {} }}", quoted(certificate), quoted(key));
    }
    text.push_str("authorization {\n  users: [\n");
    let mut user = |name: &str, key: &str, publish: &[String], subscribe: &[String]| {
        let _ = writeln!(
            text,
            "    # {name}\n    {{ nkey: {key}, permissions: {{\n      publish: {{ allow: [{}] }}\n      \
             subscribe: {{ allow: [{}] }} }} }}",
            list(publish),
            list(subscribe)
        );
    };
    let api = ["$JS.API.STREAM.CREATE.*", "$JS.API.STREAM.INFO.*"].map(str::to_owned);
    user("the administrator", admin, &api, &["_INBOX.admin.>".to_owned()]);
    for rig in *rigs {
        let (publish, subscribe) = permissions(rig);
        user(&rig.name, &rig.key, &publish, &subscribe);
    }
    text.push_str("  ]\n}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rig(name: &str, decides_for: &[&str]) -> ClusterRig {
        let key = format!("U{}", "A".repeat(55));
        ClusterRig { name: name.to_owned(), key, decides_for: decides_for.iter().map(|it| (*it).to_owned()).collect() }
    }

    #[test]
    fn a_rig_writes_only_to_its_own_subjects_and_to_decisions_it_may_make() {
        let (publish, subscribe) = permissions(&rig("left", &["right"]));
        let others: Vec<&String> =
            publish.iter().filter(|it| !it.contains("left") && !it.contains("DIRECT.GET")).collect();
        assert_eq!(others, ["decide.right.*"]);
        assert!(publish.iter().all(|it| !it.contains("STREAM") && !it.contains("CONSUMER")), "{publish:?}");
        assert!(subscribe.iter().all(|it| it != ">" && it != "_INBOX.>"));
        assert_eq!(permissions(&rig("left", &[])).0.iter().filter(|it| it.starts_with("decide")).count(), 0);
    }

    #[test]
    fn no_stream_can_lose_a_message_by_request() {
        let rigs = [rig("left", &[]), rig("right", &[])];
        let all = streams(&rigs);
        assert_eq!(all.len(), 5);
        for (name, config) in &all {
            assert!(!name.contains('.'));
            assert_eq!((&config["deny_delete"], &config["deny_purge"]), (&json!(true), &json!(true)));
        }
        let witness = &all[0].1;
        assert_eq!((&witness["max_age"], &witness["max_msgs"]), (&json!(0), &json!(-1)));
        let text = render(&Server { listen: "127.0.0.1:4222", store: "/s", tls: None, admin: "UADMIN", rigs: &rigs });
        assert!(text.contains("# left") && !text.contains("tls"), "{text}");
    }
}
