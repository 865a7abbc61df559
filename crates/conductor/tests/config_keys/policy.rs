//! `[policy]`: decisions by tier and by rule, and how long approvals are valid.

use super::*;

pub(super) const DENY: &str = "[[policy.rules]]\ntool = \"test.echo\"\ndecision = \"deny\"\n";

#[test]
fn a_rule_denies_until_a_sound_file_says_otherwise() {
    let studio = Studio::start(DENY);
    let mut client = studio.client();
    assert_eq!(studio.code(&mut client, test_tools::ECHO), "DENIED");
    assert!(
        !studio.listed(&mut client).0.contains(&"test_echo".to_owned()),
        "a tool that is denied to everyone is listed"
    );
    assert_eq!(studio.code(&mut client, test_tools::SET), "ok");

    let faults = studio.reload("[[policy.rules]]\ntool = \"test.echo\"\ndecision = \"allowed\"\n");
    assert!(faults[0].contains("config.toml:3:12"), "{faults:?}");
    assert_eq!(studio.code(&mut client, test_tools::ECHO), "DENIED", "a faulty policy replaced the old one");

    assert_eq!(studio.reload("# nothing\n"), Vec::<String>::new());
    assert_eq!(studio.code(&mut client, test_tools::ECHO), "ok");
    assert!(studio.listed(&mut client).0.contains(&"test_echo".to_owned()));

    studio.reload("[policy]\ndefault = { Stateful = \"deny\" }\n");
    assert_eq!(studio.code(&mut client, test_tools::SET), "DENIED");
}

#[test]
pub(super) fn each_tier_is_decided_as_the_file_says() {
    let studio = Studio::start(
        "[policy]\ndefault = { ReadOnly = \"deny\", Stateful = \"deny\", ConfigChange = \"deny\", HardwareIO = \"deny\" }\n",
    );
    let mut client = studio.client();
    for tool in [test_tools::ECHO, test_tools::SET, test_tools::PLAN, test_tools::DANGER] {
        assert_eq!(studio.code(&mut client, tool), "DENIED", "{tool}");
    }
}

#[test]
fn a_daemon_that_starts_on_a_faulty_policy_asks_before_every_effect() {
    let studio = Studio::start("[[policy.rules]]\ntool = \"test.set\"\ndecision = \"dney\"\n");
    let mut client = studio.client();
    assert_eq!(studio.code(&mut client, test_tools::SET), "APPROVAL_REQUIRED");
    assert_eq!(studio.code(&mut client, test_tools::ECHO), "ok");
    studio.reload("# nothing\n");
    assert_eq!(studio.code(&mut client, test_tools::SET), "ok");
}

#[test]
pub(super) fn approvals_live_and_a_no_counts_as_long_as_the_file_says() {
    let studio = Studio::start("[policy.approval]\nttl_ms = 5000\n");
    let mut client = studio.client();
    let ask = |client: &mut LineClient, text: &str| studio.call(client, test_tools::DANGER, json!({ "text": text })).0;
    let desk = || &studio.gateway().studio.approvals;
    let questions = || desk().store().read(|pending| pending.iter().cloned().collect::<Vec<_>>());
    assert_eq!(ask(&mut client, "a"), "APPROVAL_REQUIRED");
    let first = questions().remove(0);
    assert_eq!(first.expires_at.unwrap().as_millis() - first.created_at.as_millis(), 5000);
    assert_eq!(first.channel_floor, Floor::Local);

    let no = |id| studio.block_on(desk().deny(&studio.gateway().studio, id, "person:1", Channel::Cli)).unwrap();
    no(first.id);
    assert_eq!(ask(&mut client, "a"), "DENIED", "the same call was not refused soon after a no");
    studio.reload("[policy.approval]\ncooldown_ms = 0\nclient_tiers = [\"HardwareIO\"]\n");
    assert_eq!(ask(&mut client, "a"), "APPROVAL_REQUIRED", "the call was not asked about again at once");
    let second = questions().into_iter().find(|it| it.id != first.id).unwrap();
    assert_eq!(second.channel_floor, Floor::Client);
    assert_ne!(second.policy_version, first.policy_version);
}

#[test]
pub(super) fn rules_look_at_principal_tier_and_arguments_and_raise_the_channel() {
    let studio = Studio::start(
        r#"
[policy.approval]
client_tiers = ["HardwareIO"]
[[policy.rules]]
tool = "test.danger"
args = { "/text" = "quiet" }
decision = "allow"
[[policy.rules]]
tool = "test.danger"
channel = "local"
[[policy.rules]]
principal = "socket:*"
tool = "test.echo"
decision = "deny"
[[policy.rules]]
tier = "Stateful"
decision = "ask"
"#,
    );
    let mut client = studio.client();
    let danger =
        |client: &mut LineClient, text: &str| studio.call(client, test_tools::DANGER, json!({ "text": text })).0;
    assert_eq!(danger(&mut client, "quiet"), "ok");
    assert_eq!(danger(&mut client, "loud"), "APPROVAL_REQUIRED");
    let asked = studio.gateway().studio.approvals.store().read(|pending| pending.iter().next().cloned()).unwrap();
    assert_eq!(asked.channel_floor, Floor::Local, "the client may answer, although the rule requires a local person");
    assert_eq!(studio.code(&mut client, test_tools::ECHO), "DENIED");
    assert_eq!(studio.code(&mut client, test_tools::SET), "APPROVAL_REQUIRED");
    let cli = conductor_gateway::pipeline::Call::new(
        conductor_core::principal::Principal::Cli { uid: 0 },
        test_tools::ECHO,
        json!({ "text": "x" }),
    );
    let reply = studio.block_on(conductor_gateway::pipeline::run(&studio.gateway().studio, cli));
    assert!(reply.is_ok(), "the call of another principal was refused");
}
