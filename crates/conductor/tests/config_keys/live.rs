//! `[live]`, `[live.osc]` and `[live.script]`, with knobs and feedback for parameters of a Set.

use super::*;
use conductor_testkit::real::Missing;

/// The Set of the examples: three tracks, two scenes.
const SET: &[u8] = include_bytes!("../../../../examples/sets/golden.als");

/// A home that contains a Set.
fn sets(config: &str) -> Studio {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("sets")).unwrap();
    for name in ["a.als", "b.als", "c.als"] {
        std::fs::write(home.path().join("sets").join(name), SET).unwrap();
    }
    Studio::start_in(home, &format!("schema = 1\n{config}"))
}

const NO_RETRY: &str = "[retry]\nattempts = 1\n";

#[test]
pub(super) fn the_set_at_start_open_sets_and_undo_are_as_the_file_says() {
    let studio = sets("[live]\nhost = \"document\"\ndefault_set = \"a.als\"\nmax_open = 1\nundo_depth = 2\n");
    let mut client = studio.client();
    let (_, song) = studio.call(&mut client, "live_get_song_overview", json!({}));
    assert!(song["path"].as_str().unwrap().ends_with("a.als"), "{song}");
    for bpm in [90, 91, 92] {
        assert_eq!(studio.call(&mut client, "live_set_tempo", json!({ "bpm": bpm })).0, "ok");
    }
    assert_eq!(studio.call(&mut client, "live_open_set", json!({ "path": "b.als" })).0, "BUSY");
    assert_eq!(studio.call(&mut client, "live_undo", json!({ "steps": 9 })).1["undone"], 2);
}

#[test]
pub(super) fn sets_are_opened_and_made_from_where_the_file_says() {
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("far.als"), SET).unwrap();
    let far = json!({ "path": elsewhere.path().join("far.als") });
    let studio = sets("[live]\nhost = \"document\"\n");
    assert_eq!(studio.call(&mut studio.client(), "live_open_set", far.clone()).0, "DENIED");
    let roots =
        format!("[live]\nhost = \"document\"\nfile_roots = [{:?}]\ntemplate_set = \"a.als\"\n", elsewhere.path());
    let rooted = sets(&roots);
    let mut client = rooted.client();
    assert_eq!(rooted.call(&mut client, "live_open_set", far).0, "ok");
    let (_, made) = rooted.call(&mut client, "live_new_set", json!({ "path": "new.als" }));
    assert_eq!(
        (&made["trackCount"], &made["tempo"]),
        (&json!(3), &json!(124)),
        "the Set is not a copy of the template: {made}"
    );
}

#[test]
pub(super) fn large_sets_are_refused_and_tracks_rendered_where_the_file_says() {
    let elsewhere = tempfile::tempdir().unwrap();
    let folder = elsewhere.path().join("renders");
    let small = sets(&format!("[live]\nhost = \"document\"\nmax_xml_mb = 1\nrender_dir = {folder:?}\n"));
    let xml = gunzip(SET).replace("</Ableton>", &format!("{}</Ableton>", " ".repeat(2 << 20)));
    std::fs::write(small.home.path().join("sets/big.als"), gzip(xml.as_bytes())).unwrap();
    let mut client = small.client();
    let (code, body) = small.call(&mut client, "live_open_set", json!({ "path": "big.als" }));
    assert_eq!(code, "BAD_INPUT", "{body}");
    // `render_dir` is the folder of rendered tracks.
    let sample = small.home.path().canonicalize().unwrap().join("sets/vox_take.wav");
    write_wav(&sample);
    let xml = gunzip(SET).replace("/audio/vox_take.wav", &sample.to_string_lossy());
    std::fs::write(small.home.path().join("sets/sung.als"), gzip(xml.as_bytes())).unwrap();
    let small = Studio::start_in(
        small.stop(),
        &format!("[live]\nhost = \"document\"\nrender_dir = {folder:?}\ndefault_set = \"sung.als\"\n"),
    );
    let render = json!({ "trackId": "track:2", "startBeat": 0, "endBeat": 8 });
    let (_, rendered) = small.call(&mut small.client(), "live_render_track", render);
    assert!(rendered["path"].as_str().is_some_and(|it| it.starts_with(folder.to_str().unwrap())), "{rendered}");
}

/// The effect of each `host` value while no Live is running.
#[test]
pub(super) fn the_host_is_looked_for_where_the_file_says() {
    let nowhere = "[live.osc]\nhost = \"127.0.0.9\"\nport = 9\nreply_port = 19\ntimeout_ms = 300\n";
    for (choice, code) in
        [("script", "HOST_OFFLINE"), ("abletonosc", "HOST_OFFLINE"), ("auto", "ok"), ("document", "ok")]
    {
        let studio = sets(&format!("{NO_RETRY}[live]\nhost = \"{choice}\"\ndefault_set = \"a.als\"\n{nowhere}"));
        let (got, body) = studio.call(&mut studio.client(), "live_get_song_overview", json!({}));
        assert_eq!(got, code, "{choice}: {body}");
        if choice == "abletonosc" {
            assert!(
                body["message"].as_str().unwrap().contains("127.0.0.9:9"),
                "the error does not contain the address of the file: {body}"
            );
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    run_gzip("-c", bytes)
}

fn gunzip(bytes: &[u8]) -> String {
    String::from_utf8(run_gzip("-dc", bytes)).unwrap()
}

/// Writes two seconds of sound at half scale.
fn write_wav(file: &std::path::Path) {
    let (bits_per_sample, sample_format) = (16, hound::SampleFormat::Int);
    let spec = hound::WavSpec { channels: 1, sample_rate: 8000, bits_per_sample, sample_format };
    let mut writer = hound::WavWriter::create(file, spec).unwrap();
    (0..16_000).for_each(|_| writer.write_sample(16_384_i16).unwrap());
    writer.finalize().unwrap();
}

fn run_gzip(how: &'static str, bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut child = std::process::Command::new("gzip")
        .arg(how)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    child.wait_with_output().unwrap().stdout
}

#[test]
fn the_keys_of_live_osc_and_script_count() {
    let live = require!(fakelive::osc());
    let osc = format!(
        "[live.osc]\nhost = \"127.0.0.1\"\nport = {}\nreply_port = {}\ntimeout_ms = 2000\n",
        live.port,
        free_port()
    );
    let studio = sets(&format!("{NO_RETRY}[live]\nhost = \"auto\"\n{osc}"));
    let (_, song) = studio.call(&mut studio.client(), "live_get_song_overview", json!({}));
    assert_eq!((&song["host"], &song["setId"]), (&json!("abletonosc"), &json!("live_osc")), "{song}");
    // With `auto`, a running script has priority over AbletonOSC. If Live then stops answering, the
    // call must fail after the script's `timeout_ms`.
    let studio = sets(&format!("{NO_RETRY}[live]\nhost = \"auto\"\n[live.script]\ntimeout_ms = 300\n{osc}"));
    let mut scripted = require!(fakelive::script(studio.home.path(), "12.2.0"));
    let mut client = studio.client();
    let (_, song) = studio.call(&mut client, "live_get_song_overview", json!({}));
    assert_eq!(song["host"], "script", "{song}");
    scripted.freeze();
    assert_eq!(studio.call(&mut client, "live_get_song_overview", json!({})).0, "TIMEOUT");
}

/// A timeout that is far longer than the default.
const LONG_MS: u64 = 60_000;

/// Calls the studio with the long timeout, then the studio with the default timeout. The second
/// call must time out while the first still waits.
fn outlasts(patient: &Studio, usual: &Studio) {
    let overview = modern(json!({ "name": "live_get_song_overview", "arguments": {} }));
    let mut client = patient.client();
    let asked = patient.block_on(client.start("tools/call", overview));
    // Give the first call a head start: with equal timeouts it would also end first.
    pause(500);
    let (code, body) = usual.call(&mut usual.client(), "live_get_song_overview", json!({}));
    assert_eq!(code, "TIMEOUT", "{body}");
    let moment = std::time::Duration::from_millis(100);
    let answered = patient.block_on(async { tokio::time::timeout(moment, client.reply(asked)).await });
    assert!(answered.is_err(), "{answered:?}");
}

#[test]
pub(super) fn an_abletonosc_that_does_not_answer_is_waited_for_as_long_as_the_file_says() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let osc =
        |more: String| sets(&format!("{NO_RETRY}[live]\nhost = \"abletonosc\"\n[live.osc]\nport = {port}\n{more}\n"));
    // If another program uses the port, the error names the port number.
    let theirs = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = theirs.local_addr().unwrap().port();
    let studio = osc(format!("reply_port = {taken}"));
    let (_, body) = studio.call(&mut studio.client(), "live_get_song_overview", json!({}));
    assert!(body["message"].as_str().unwrap().contains(&format!("UDP port {taken}")), "{body}");
    let patient = osc(format!("reply_port = {}\ntimeout_ms = {LONG_MS}", free_port()));
    outlasts(&patient, &osc(format!("reply_port = {}", free_port())));
}

#[test]
pub(super) fn a_script_that_does_not_answer_is_waited_for_as_long_as_the_file_says() {
    let frozen = |timeout: &str| {
        let studio = sets(&format!("{NO_RETRY}[live]\nhost = \"script\"\n[live.script]\n{timeout}\n"));
        let mut scripted = fakelive::script(studio.home.path(), "12.2.0")?;
        assert_eq!(studio.call(&mut studio.client(), "live_get_song_overview", json!({})).0, "ok");
        scripted.freeze();
        Ok::<_, Missing>((studio, scripted))
    };
    let (patient, _script) = require!(frozen(&format!("timeout_ms = {LONG_MS}")));
    let (usual, _other_script) = require!(frozen(""));
    outlasts(&patient, &usual);
}

const HANDS: &str = "[[devices]]\nalias = \"pads\"\ndirection = \"Input\"\nloopback = true\n[[modes]]\nname = \"Default\"\n\
    [[modes.continuous]]\nid = \"volume\"\nsource = { type = \"CC\", cc = 7, device = \"pads\" }\nglue = { throttle_ms = 0 }\n\
    targets = [{ type = \"LiveParameter\", path = \"track:0/mixer/panning\" }]\n\
    [[modes.continuous]]\nid = \"exact\"\nsource = { type = \"CC\", cc = 8, device = \"pads\" }\nglue = { out = [0.0, 0.5], throttle_ms = 0 }\n\
    targets = [{ type = \"LiveParameter\", path = \"track:1/mixer/panning\" }]\n\
    [[modes.mappings]]\nid = \"clip\"\ntrigger = { type = \"Note\", note = 36, device = \"pads\" }\n\
    action = { type = \"CallTool\", tool = \"live_fire_clip\", arguments = { clipId = \"track:1/clipslot:0/clip\" } }\n\
    [[modes.mappings]]\nid = \"scene\"\ntrigger = { type = \"Note\", note = 37, device = \"pads\" }\n\
    action = { type = \"CallTool\", tool = \"live_fire_scene\", arguments = { sceneId = \"scene:1\" } }\n";

#[test]
fn a_knob_turns_a_parameter_of_a_set_as_one_step() {
    let studio = sets(&format!("[live]\nhost = \"document\"\ndefault_set = \"a.als\"\n{HANDS}"));
    let mut client = studio.client();
    let panning = |client: &mut LineClient, track: usize| {
        let (_, listed) = studio.call(client, "live_list_devices", json!({ "trackId": format!("track:{track}") }));
        listed["mixer"][1]["value"].as_f64().unwrap()
    };
    assert_eq!(panning(&mut client, 0), 0.0);
    for value in [10, 40, 90, 127] {
        studio.play(&[0xB0, 7, value]);
    }
    assert!(
        wait_for(PATIENCE, || (panning(&mut client, 0) == 1.0).then_some(())).is_some(),
        "the knob does not cover the whole range from 0 to 1"
    );
    let (_, undone) = studio.call(&mut client, "live_undo", json!({}));
    assert_eq!((&undone["undone"], &undone["canUndo"]), (&json!(1), &json!(false)), "{undone}");
    assert_eq!(panning(&mut client, 0), 0.0);
    studio.play(&[0xB0, 8, 127]);
    assert!(
        wait_for(PATIENCE, || (panning(&mut client, 1) == 0.5).then_some(())).is_some(),
        "the knob does not use the range of `out`"
    );
}

/// The motor fader always shows the value of the parameter: after a knob has changed it, and after
/// a tool has undone the change.
#[test]
pub(super) fn a_controller_shows_where_a_parameter_of_a_set_stands() {
    let row = "[[feedback]]\ndevice = \"pads\"\nout = { type = \"CC\", channel = 0, controller = 50 }\n\
               from = { type = \"LiveParameter\", path = \"track:0/mixer/panning\" }\nrange = [0, 100]\n";
    let board = HANDS.replace("direction = \"Input\"\n", "");
    let studio = sets(&format!("[live]\nhost = \"document\"\ndefault_set = \"a.als\"\n{board}"));
    let mut ear = studio.ear("pads");
    studio.reload(&format!("[live]\nhost = \"document\"\ndefault_set = \"a.als\"\n{board}{row}"));
    assert_eq!(studio.hear(&mut ear), [0xB0, 50, 50], "the fader does not show the value of the saved Set");
    studio.play(&[0xB0, 7, 127]);
    assert_eq!(studio.hear(&mut ear), [0xB0, 50, 100]);
    assert_eq!(studio.call(&mut studio.client(), "live_undo", json!({})).0, "ok");
    assert_eq!(studio.hear(&mut ear), [0xB0, 50, 50]);
}

/// Another client changed the parameter: a knob with takeover waits until it reaches the value, and
/// an endless knob continues from the value.
#[test]
fn a_knob_knows_where_somebody_else_put_its_parameter() {
    let board = "[[devices]]\nalias = \"pads\"\nloopback = true\n[[modes]]\nname = \"Default\"\n\
        [[modes.continuous]]\nid = \"fader\"\nsource = { type = \"CC\", cc = 7, device = \"pads\" }\n\
        glue = { takeover = \"pickup\", throttle_ms = 0 }\ntargets = [{ type = \"LiveParameter\", path = \"track:0/mixer/panning\" }]\n\
        [[modes.continuous]]\nid = \"endless\"\nsource = { type = \"Encoder\", cc = 16, device = \"pads\", mode = \"twos_complement\" }\n\
        glue = { throttle_ms = 0 }\ntargets = [{ type = \"LiveParameter\", path = \"track:1/mixer/panning\" }]\n";
    let shown = |track: u8| {
        format!(
            "[[feedback]]\ndevice = \"pads\"\nout = {{ type = \"CC\", channel = 0, controller = {} }}\n\
             from = {{ type = \"LiveParameter\", path = \"track:{track}/mixer/panning\" }}\n",
            50 + track
        )
    };
    let studio =
        sets("[live]\nhost = \"document\"\ndefault_set = \"a.als\"\n[[devices]]\nalias = \"pads\"\nloopback = true\n");
    let mut ear = studio.ear("pads");
    let config = format!("[live]\nhost = \"document\"\ndefault_set = \"a.als\"\n{board}{}{}", shown(0), shown(1));
    assert_eq!(studio.reload(&config), Vec::<String>::new());
    // When the lights show the values, the bindings of the knobs have received them too.
    assert_eq!((studio.hear(&mut ear), studio.hear(&mut ear)), (vec![0xB0, 50, 64], vec![0xB0, 51, 64]));
    let mut client = studio.client();
    for (track, value) in [(0, 0.5), (1, -0.5)] {
        let arguments = json!({ "paramId": format!("track:{track}/mixer/panning"), "value": value });
        assert_eq!(studio.call(&mut client, "live_set_param", arguments).0, "ok");
    }
    let mut lit = [studio.hear(&mut ear), studio.hear(&mut ear)];
    lit.sort();
    assert_eq!(lit, [vec![0xB0, 50, 95], vec![0xB0, 51, 32]]);
    let mut panning = |track: usize| {
        let (_, listed) = studio.call(&mut client, "live_list_devices", json!({ "trackId": format!("track:{track}") }));
        listed["mixer"][1]["value"].as_f64().unwrap()
    };
    // First send a value far below the parameter's value. Then turn the endless knob by one step:
    // when its change arrives, the first message has been processed too.
    studio.play(&[0xB0, 7, 10]);
    studio.play(&[0xB0, 16, 1]);
    let arrived =
        wait_for(PATIENCE, || (panning(1) > -0.5).then(|| panning(1))).expect("the knob did not change the parameter");
    assert!(
        (arrived - (-0.5 + 2.0 / 128.0)).abs() < 1e-6,
        "{arrived} is not one step above the value of the other client"
    );
    assert_eq!(panning(0), 0.5, "the fader changed the parameter before it reached the value");
    studio.play(&[0xB0, 7, 127]);
    assert!(
        wait_for(PATIENCE, || (panning(0) == 1.0).then_some(())).is_some(),
        "the fader did not take over after it crossed the value"
    );
    // A reload drops the positions of the knobs, but keeps the values of the parameters, although
    // no new values are reported.
    while studio.hear(&mut ear) != [0xB0, 50, 127] {}
    assert_eq!(studio.reload(&format!("{config}# again\n")), Vec::<String>::new());
    pause(1000);
    studio.play(&[0xB0, 7, 20]);
    studio.play(&[0xB0, 16, 1]);
    let arrived = wait_for(PATIENCE, || Some(panning(1)).filter(|it| *it != arrived))
        .expect("the knob did not change the parameter");
    assert!((arrived - (-0.5 + 4.0 / 128.0)).abs() < 1e-6, "{arrived} is not one further step");
    assert_eq!(panning(0), 1.0, "the fader changed the parameter before it reached the value");
}

#[test]
fn hands_reach_a_running_live_through_either_host() {
    for host in ["script", "abletonosc"] {
        let mut osc = require!(fakelive::osc());
        let config = format!(
            "{NO_RETRY}[live]\nhost = \"{host}\"\n[live.osc]\nport = {}\nreply_port = {}\n{HANDS}",
            osc.port,
            free_port()
        );
        let studio = sets(&config);
        let mut scripted = require!(fakelive::script(studio.home.path(), "12.2.0"));
        let live = if host == "script" { &mut scripted } else { &mut osc };
        let seen = |live: &mut fakelive::Running, what: &str, wanted: Value| {
            wait_for(PATIENCE, || (live.look(what) == wanted).then_some(())).is_some()
        };
        studio.play(&[0xB0, 7, 0]);
        assert!(
            seen(live, "song.tracks[0].mixer_device.panning.value", json!(-1.0)),
            "{host}: the knob did not change the parameter"
        );
        studio.play(&[0x90, 36, 100]);
        assert!(
            seen(live, "song.tracks[1].clip_slots[0].clip.is_playing", json!(true)),
            "{host}: the pad did not launch the clip"
        );
        studio.play(&[0x90, 37, 100]);
        assert!(seen(live, "song.scenes[1].fired", json!(1)), "{host}: the pad did not launch the scene");
    }
}

#[test]
fn a_fader_shows_what_a_parameter_stands_at_in_whichever_host() {
    const FADER: &str = "[[devices]]\nalias = \"faders\"\ndirection = \"Output\"\nloopback = true\n";
    const SHOWN: &str = "[[feedback]]\ndevice = \"faders\"\nout = { type = \"CC\", channel = 0, controller = 7 }\n\
        from = { type = \"LiveParameter\", path = \"track:0/mixer/panning\" }\n\
        [[feedback]]\ndevice = \"faders\"\nout = { type = \"CC\", channel = 0, controller = 8 }\n\
        from = { type = \"LiveParameter\", path = \"track:99/mixer/panning\" }\n";
    for host in ["document", "script", "abletonosc"] {
        let mut osc = require!(fakelive::osc());
        let config = format!(
            "schema = 1\n{NO_RETRY}[live]\nhost = \"{host}\"\ndefault_set = \"a.als\"\n[live.osc]\nport = {}\n\
             reply_port = {}\n{FADER}",
            osc.port,
            free_port()
        );
        let studio = sets(config.strip_prefix("schema = 1\n").unwrap());
        let mut scripted = require!(fakelive::script(studio.home.path(), "12.2.0"));
        let mut client = studio.client();
        let mut faders = studio.block_on(studio.handle().listen("faders".into())).unwrap();
        let mut shown = |value: u8| {
            let next = async { tokio::time::timeout(PATIENCE, faders.recv()).await };
            let heard = studio.block_on(next).ok().flatten();
            assert_eq!(
                heard,
                Some(vec![0xB0, 7, value]),
                "{host}: the value is missing, or a missing track sent a value"
            );
        };
        assert_eq!(studio.reload(&format!("{config}{SHOWN}")), Vec::<String>::new());
        shown(64);
        let mut person = |value: f64| match host {
            "script" => scripted.run(&format!("song.tracks[0].mixer_device.panning.value = {value}")),
            "abletonosc" => osc.run(&format!("song.tracks[0].mixer_device.panning.value = {value}")),
            _ => {
                let arguments = json!({ "paramId": "track:0/mixer/panning", "value": value });
                assert_eq!(studio.call(&mut client, "live_set_param", arguments).0, "ok");
            }
        };
        person(1.0);
        shown(127);
        person(-1.0);
        shown(0);
    }
}

#[test]
fn doctor_says_which_of_port_script_version_or_permission_is_wrong() {
    let examine = |studio: &Studio| {
        let found = studio.block_on(studio.gateway().live.examine());
        serde_json::to_value(found).unwrap()
    };
    let of = |found: &Value, check: &str, word: &str| {
        let all = found.as_array().unwrap();
        all.iter().any(|it| {
            it["check"] == check
                && it["detail"].as_str().unwrap().contains(word)
                && (it["grade"] == "ok" || it["cure"].is_string())
        })
    };
    let alone = sets("[live]\nhost = \"auto\"\nfile_roots = [\"/no/such/folder\"]\n[live.osc]\nport = 1\n");
    let found = examine(&alone);
    assert!(of(&found, "live files", "/no/such/folder") && of(&found, "live script", "not running"), "{found}");
    assert!(of(&found, "abletonosc", "script: nothing listens"), "{found}");
    // The check reports that another program uses the reply port.
    let live = require!(fakelive::osc());
    let taken = std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let busy = sets(&format!("[live.osc]\nport = {}\nreply_port = {port}\n", live.port));
    assert!(of(&examine(&busy), "abletonosc", "port: UDP port"), "{}", examine(&busy));
    drop(taken);
    let found = examine(&busy);
    assert!(of(&found, "abletonosc", "Live 12.2 answers") && of(&found, "abletonosc", "permission:"), "{found}");
    // The check also reports a version of Live that is too old.
    let old = require!(fakelive::start(&["osc", "--live", "10.1.0"]));
    let studio = sets(&format!("[live.osc]\nport = {}\nreply_port = {}\n", old.port, free_port()));
    assert!(of(&examine(&studio), "abletonosc", "version: Live 10.1"), "{}", examine(&studio));
    // The script: first with correct permissions, then with a file that other users may read.
    let scripted = require!(fakelive::script(studio.home.path(), "12.2.0"));
    assert!(of(&examine(&studio), "live script", "Live 12.2.0"), "{}", examine(&studio));
    use std::os::unix::fs::PermissionsExt;
    let file = studio.home.path().join("state/live-script.json");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(of(&examine(&studio), "live script", "permission:"), "{}", examine(&studio));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    scripted.crash();
    assert!(of(&examine(&studio), "live script", "nothing listens on port"), "{}", examine(&studio));
}
