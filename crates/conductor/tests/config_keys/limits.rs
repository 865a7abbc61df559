//! `[limits]`, and `max_in_flight` of `[mcp]`: rates, sizes and concurrent calls.

use super::*;

#[test]
pub(super) fn limits_hold() {
    let studio =
        Studio::start("[limits]\nread = { per_minute = 1, burst = 1 }\neffect = { per_minute = 1, burst = 2 }\n");
    let mut client = studio.client();
    let reads: Vec<String> = (0..2).map(|_| studio.code(&mut client, test_tools::ECHO)).collect();
    assert_eq!(reads, ["ok", "RATE_LIMITED"]);
    let effects: Vec<String> = (0..3).map(|_| studio.code(&mut client, test_tools::SET)).collect();
    assert_eq!(effects, ["ok", "ok", "RATE_LIMITED"]);
    // At the default rates, this pause would allow one more call.
    pause(300);
    assert_eq!(
        [test_tools::ECHO, test_tools::SET].map(|it| studio.code(&mut client, it)),
        ["RATE_LIMITED", "RATE_LIMITED"]
    );
    drop(studio);

    let studio = Studio::start("[limits]\nresult_bytes = 1024\npending_per_principal = 1\n");
    let mut client = studio.client();
    let long = json!({ "text": "x".repeat(2000) });
    assert_eq!(studio.call(&mut client, test_tools::ECHO, long.clone()).0, "UNSUPPORTED");
    assert_eq!(studio.call(&mut client, test_tools::DANGER, json!({ "text": "a" })).0, "APPROVAL_REQUIRED");
    assert_eq!(studio.call(&mut client, test_tools::DANGER, json!({ "text": "b" })).0, "BUSY");
    studio.reload("[limits]\nasks_per_minute = 1\n");
    assert_eq!(studio.call(&mut client, test_tools::ECHO, long).0, "ok");
    let asked = ["c", "d"].map(|text| studio.call(&mut client, test_tools::DANGER, json!({ "text": text })).0);
    assert_eq!(asked, ["APPROVAL_REQUIRED", "RATE_LIMITED"]);
}

#[test]
pub(super) fn a_connection_and_the_whole_daemon_do_as_much_at_once_as_the_file_says() {
    let slow = || modern(json!({ "name": test_tools::SLOW, "arguments": {} }));
    let echo = || modern(json!({ "name": test_tools::ECHO, "arguments": { "text": "x" } }));
    // Whether a second call on the same connection, and a call on another connection, are refused
    // while the first call runs.
    for (config, same, other) in
        [("[mcp]\nmax_in_flight = 1\n", true, false), ("[limits]\nin_flight = 1\n", true, true)]
    {
        let studio = Studio::start(config);
        let (mut first, mut second) = (studio.client(), studio.client());
        let busy = studio.block_on(async {
            let held = first.start("tools/call", slow()).await;
            studio.runs.until(test_tools::SLOW, 1).await;
            let replies = [first.request("tools/call", echo()).await, second.request("tools/call", echo()).await];
            studio.runs.release.notify_waiters();
            first.reply(held).await;
            replies.map(|it| it["result"]["structuredContent"]["code"] == "BUSY")
        });
        assert_eq!(busy, [same, other], "{config}");
    }
}

/// After a hundred consecutive rate-limit refusals, the door stops reading from that connection for
/// a while. Other connections are served during that time.
#[test]
fn a_flood_is_not_listened_to_for_a_while() {
    let studio = Studio::start("[limits]\nread = { per_minute = 1, burst = 1 }\n");
    let mut quiet = studio.client();
    let paused = (0..5).any(|_| {
        let mut flood = studio.client();
        studio.block_on(async {
            let echo = |name| json!({ "name": name, "arguments": { "text": "x" } });
            flood.initialize().await;
            let mut refused = 0;
            while refused < 100 {
                let reply = flood.request("tools/call", echo(test_tools::ECHO)).await;
                refused += u32::from(reply["result"]["structuredContent"]["code"] == "RATE_LIMITED");
            }
            let waiting = flood.start("ping", json!({})).await;
            let mut answered = std::pin::pin!(flood.reply(waiting));
            // The flooding connection has sent one ping. Another connection completes twenty
            // exchanges before that ping is answered.
            let mut silent = true;
            for _ in 0..20 {
                tokio::select! {
                    biased;
                    _ = &mut answered => { silent = false; break; }
                    reply = quiet.request("ping", json!({})) => assert!(reply["result"].is_object()),
                }
            }
            if silent {
                answered.await;
            }
            silent
        })
    });
    assert!(paused, "in five attempts, the flooding connection was answered as fast as the others");
}
