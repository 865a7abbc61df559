use super::*;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A small test server: it sends one response per connection and counts connections.
struct Server {
    address: SocketAddr,
    hits: Arc<AtomicUsize>,
    heard: Arc<Mutex<String>>,
}

async fn server_at(listener: TcpListener, answer: impl Fn(&str) -> String + Send + 'static) -> Server {
    let address = listener.local_addr().unwrap();
    let (hits, heard) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(String::new())));
    let (count, last_request) = (Arc::clone(&hits), Arc::clone(&heard));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let mut request = vec![0; 65536];
            let n = stream.read(&mut request).await.unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..n]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or("/").to_owned();
            *last_request.lock() = request;
            let _ = stream.write_all(answer(&path).as_bytes()).await;
        }
    });
    Server { address, hits, heard }
}

async fn server(answer: impl Fn(&str) -> String + Send + 'static) -> Server {
    server_at(TcpListener::bind("127.0.0.1:0").await.unwrap(), answer).await
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn to(location: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}

/// A resolver that returns the lists one after the other, and then always the last one.
struct Turns(Vec<Vec<&'static str>>, AtomicUsize);

impl Lookup for Turns {
    fn addresses(&self, _: String, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        let turn = self.1.fetch_add(1, Ordering::SeqCst).min(self.0.len() - 1);
        let found = self.0[turn].iter().map(|it| SocketAddr::new(it.parse().unwrap(), port)).collect();
        Box::pin(std::future::ready(Ok(found)))
    }
}

fn web(turns: Vec<Vec<&'static str>>) -> Arc<Web> {
    Web::with(system_tls().unwrap(), Arc::new(Turns(turns, AtomicUsize::new(0))), is_public)
}

fn reach(allow: &[String], plain: &[String]) -> Reach {
    Reach { allow_hosts: allow.to_vec(), http_hosts: plain.to_vec(), only: None }
}

async fn fetch(web: &Web, url: &str, reach: &Reach) -> Result<Fetched, WebError> {
    web.fetch(Wanted::get(Url::parse(url).unwrap()), reach).await
}

/// A naive client, as negative control: it connects to every address of a name, and follows
/// redirects.
async fn naive(url: &str) -> bool {
    let client =
        reqwest::Client::builder().no_proxy().tls_backend_preconfigured(system_tls().unwrap()).build().unwrap();
    client.get(url).send().await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_a_local_address_is_reached() {
    let local = server(|_| ok("inside")).await;
    let port = local.address.port();
    let spellings = [
        format!("http://127.0.0.1:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://0x7f.1:{port}/"),
        format!("http://017700000001:{port}/"),
        format!("http://0:{port}/"),
        format!("http://name.example:{port}/"),
        format!("http://127.0.0.1.:{port}/"),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "http://[fd00:ec2::254]/".to_owned(),
    ];
    let web = web(vec![vec!["127.0.0.1"]]);
    for url in &spellings {
        let host = host_of(&Url::parse(url).unwrap());
        // The host may be reached without TLS, so the request is not refused for lack of TLS.
        let refused = fetch(&web, url, &reach(std::slice::from_ref(&host), std::slice::from_ref(&host))).await;
        assert!(matches!(refused, Err(WebError::Private { .. })), "{url}: {refused:?}");
    }
    // One private address among public ones is enough to refuse the request.
    let mixed = self::web(vec![vec!["1.1.1.1", "10.0.0.1"]]);
    let refused = fetch(&mixed, "https://mixed.example/", &Reach::default()).await;
    assert!(matches!(refused, Err(WebError::Private { .. })), "{refused:?}");
    assert_eq!(local.hits.load(Ordering::SeqCst), 0);

    // Negative control: the naive client reaches the private server through several of these.
    let mut reached = 0;
    for url in spellings.iter().take(7) {
        reached += usize::from(naive(url).await);
    }
    assert!(reached >= 4 && local.hits.load(Ordering::SeqCst) >= 4, "{reached}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_exact_host_and_port_lift_the_wall() {
    let local = server(|_| ok("studio")).await;
    let (url, exact) = (format!("http://{}/", local.address), local.address.to_string());
    let web = web(vec![vec![]]);
    let name_alone = reach(&["127.0.0.1".to_owned()], std::slice::from_ref(&exact));
    assert!(matches!(fetch(&web, &url, &name_alone).await, Err(WebError::Private { .. })));
    let other_port = reach(&["127.0.0.1:1".to_owned()], std::slice::from_ref(&exact));
    assert!(matches!(fetch(&web, &url, &other_port).await, Err(WebError::Private { .. })));
    let no_plain = reach(std::slice::from_ref(&exact), &[]);
    assert!(matches!(fetch(&web, &url, &no_plain).await, Err(WebError::NeedsTls { .. })));
    assert_eq!(local.hits.load(Ordering::SeqCst), 0);
    let both = reach(std::slice::from_ref(&exact), std::slice::from_ref(&exact));
    assert_eq!(fetch(&web, &url, &both).await.unwrap().body, b"studio");
    let elsewhere = Reach { only: Some(vec!["api.example".into()]), ..both };
    assert!(matches!(fetch(&web, &url, &elsewhere).await, Err(WebError::NotGranted { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_starts_over() {
    let inner = server(|_| ok("inside")).await;
    let target = format!("http://{}/", inner.address);
    let door = server(move |_| to(&target)).await;
    let (url, exact) = (format!("http://{}/", door.address), door.address.to_string());
    let web = web(vec![vec![]]);
    // Both may be reached without TLS; only the first is an allowed private address.
    let both = [exact.clone(), inner.address.to_string()];
    let unfollowed = fetch(&web, &url, &reach(std::slice::from_ref(&exact), &both)).await.unwrap();
    assert_eq!((unfollowed.status, unfollowed.url.as_str()), (302, url.as_str()));
    assert_eq!(unfollowed.headers[LOCATION], format!("http://{}/", inner.address));
    // A host without a port does not allow a private address, not even for a redirect.
    let by_name = reach(&[exact.clone(), "127.0.0.1".to_owned()], &both);
    let refused = fetch(&web, &url, &by_name).await;
    assert!(matches!(refused, Err(WebError::Private { .. })), "{refused:?}");
    assert_eq!(inner.hits.load(Ordering::SeqCst), 0);
    assert!(
        naive(&url).await && inner.hits.load(Ordering::SeqCst) == 1,
        "negative control: the naive client did not follow the redirect"
    );

    let endless = server(|_| to("/again")).await;
    let exact = endless.address.to_string();
    let refused =
        fetch(&web, &format!("http://{exact}/"), &reach(std::slice::from_ref(&exact), std::slice::from_ref(&exact)))
            .await;
    assert!(matches!(refused, Err(WebError::TooManyRedirects)), "{refused:?}");
    assert_eq!(endless.hits.load(Ordering::SeqCst), REDIRECTS + 1);
}

/// 127.0.0.2 is used as the public host and 127.0.0.1 as the private host, with the same port. Only
/// the pinned address decides which one is reached.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_changes_its_mind_changes_nothing() {
    fn public(address: IpAddr) -> bool {
        address == IpAddr::from([127, 0, 0, 2])
    }
    let outside = server_at(TcpListener::bind("127.0.0.2:0").await.unwrap(), |_| ok("outside")).await;
    let port = outside.address.port();
    let Ok(listener) = TcpListener::bind(("127.0.0.1", port)).await else { return };
    let inside = server_at(listener, |_| ok("inside")).await;
    let turns = || Arc::new(Turns(vec![vec!["127.0.0.2"], vec!["127.0.0.1"]], AtomicUsize::new(0)));
    let web = Web::with(system_tls().unwrap(), turns(), public);
    let reach = reach(&[], &["flip.example".to_owned()]);
    let got = fetch(&web, &format!("http://flip.example:{port}/"), &reach).await.unwrap();
    assert_eq!((got.body.as_slice(), inside.hits.load(Ordering::SeqCst)), (&b"outside"[..], 0));
    // At the second request the name has a private address, so the request is refused.
    let again = fetch(&web, &format!("http://flip.example:{port}/"), &reach).await;
    assert!(matches!(again, Err(WebError::Private { .. })), "{again:?}");

    // Negative control: this version checks first and connects by name later.
    let flip = turns();
    let checked = flip.addresses("flip.example".into(), port).await.unwrap();
    assert!(checked.iter().all(|it| public(it.ip())));
    let connected = flip.addresses("flip.example".into(), port).await.unwrap();
    assert!(tokio::net::TcpStream::connect(connected[0]).await.is_ok());
    tokio::task::yield_now().await;
    assert!(!public(connected[0].ip()), "the naive version did not connect to the private address");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_and_slow_answers_are_cut() {
    let large = server(|_| ok(&"x".repeat(3 << 20))).await;
    let exact = large.address.to_string();
    let web = web(vec![vec![]]);
    let open = reach(std::slice::from_ref(&exact), std::slice::from_ref(&exact));
    let got = fetch(&web, &format!("http://{exact}/"), &open).await.unwrap();
    assert_eq!((got.body.len(), got.truncated), (MOST_BYTES, true));

    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let exact = silent.local_addr().unwrap().to_string();
    web.configure(&config::Web { timeout_ms: 50, ..config::Web::default() });
    let open = reach(std::slice::from_ref(&exact), std::slice::from_ref(&exact));
    let late = fetch(&web, &format!("http://{exact}/"), &open).await;
    assert!(matches!(late, Err(WebError::Late { .. })), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_stay_with_their_host() {
    let other = server(|_| ok("other")).await;
    let target = format!("http://{}/", other.address);
    let first = server(move |_| to(&target)).await;
    let hosts = [first.address.to_string(), other.address.to_string()];
    let mut wanted = Wanted::get(Url::parse(&format!("http://{}/", first.address)).unwrap());
    wanted.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer mine"));
    wanted.sealed.push(Sealed {
        name: HeaderName::from_static("x-key"),
        value: HeaderValue::from_static("sealed-value"),
        hosts: vec![first.address.to_string()],
    });
    web(vec![vec![]]).fetch(wanted, &reach(&hosts, &hosts)).await.unwrap();
    let (sent, passed) = (first.heard.lock().clone(), other.heard.lock().clone());
    assert!(sent.contains("Bearer mine") && sent.contains("sealed-value"));
    assert!(
        passed.contains("GET /") && !passed.contains("Bearer mine") && !passed.contains("sealed-value"),
        "{passed}"
    );
}

#[test]
fn https_never_becomes_http() {
    let mut wanted = Wanted::get(Url::parse("https://a.example/x").unwrap());
    let go = |wanted: &mut Wanted, status, location: &str| {
        let next = target(&wanted.url, &HeaderValue::from_str(location).unwrap())?;
        redirect(wanted, status, next)
    };
    assert!(matches!(go(&mut wanted, 302, "http://a.example/y"), Err(WebError::BadRedirect { .. })));
    assert!(go(&mut wanted, 302, "/y").is_ok());
    assert_eq!(wanted.url.as_str(), "https://a.example/y");
    let mut post = Wanted { method: Method::POST, body: Some(b"b".to_vec()), ..Wanted::get(wanted.url.clone()) };
    assert!(go(&mut post, 307, "https://b.example/").is_err());
    assert!(go(&mut post, 303, "https://b.example/").is_ok());
    assert_eq!((post.method, post.body), (Method::GET, None));
}

/// A resolver that counts its calls and returns the same address for every name.
struct Counted(AtomicUsize, IpAddr);

impl Lookup for Counted {
    fn addresses(&self, _: String, port: u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let found = vec![SocketAddr::new(self.1, port)];
        Box::pin(std::future::ready(Ok(found)))
    }
}

/// A host that a person has not named is neither resolved nor connected to, in any notation of its
/// name.
#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_to_a_host_without_a_name_is_given_back() {
    let other = server(|_| ok("stolen")).await;
    let port = other.address.port();
    let lookup = Arc::new(Counted(AtomicUsize::new(0), IpAddr::from([127, 0, 0, 1])));
    let web = Web::with(system_tls().unwrap(), Arc::clone(&lookup) as Arc<dyn Lookup>, |_| true);
    let mut reach = reach(&[], &["evil.test".into(), "127.0.0.1".into()]);
    let targets = [
        format!("http://evil.test:{port}/stolen?data=abc"),
        format!("http://EVIL.test.:{port}/"),
        format!("http://%65vil.test:{port}/"),
        format!("http://\u{ff45}vil.test:{port}/"),
        format!("//evil.test:{port}/"),
        format!("\\\\evil.test:{port}/"),
        format!("http://door.example@evil.test:{port}/"),
        format!("http://127.0.0.1:{port}/"),
        format!("http://0x7f.1:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("https://evil.test:{port}/"),
    ];
    for granted_by_plugin in [false, true] {
        reach.only = granted_by_plugin.then(Vec::new);
        for target in &targets {
            let door = server({
                let target = target.clone();
                move |_| to(&target)
            })
            .await;
            let at = door.address.to_string();
            let mut reach = reach.clone();
            reach.allow_hosts = vec![at.clone()];
            reach.http_hosts.push(at.clone());
            reach.only = reach.only.map(|_| vec![at.clone()]);
            let got = fetch(&web, &format!("http://{at}/"), &reach).await;
            match got {
                Ok(got) => assert_eq!((got.status, granted_by_plugin), (302, false), "{target}"),
                Err(WebError::NotGranted { .. }) => assert!(granted_by_plugin, "{target}"),
                Err(fault) => panic!("{target}: {fault}"),
            }
            assert_eq!(door.hits.load(Ordering::SeqCst), 1, "{target}");
        }
    }
    assert_eq!(lookup.0.load(Ordering::SeqCst), 0, "a name was resolved");
    assert_eq!(other.hits.load(Ordering::SeqCst), 0, "a client connected to the other server");
    // A redirect to a named host is followed.
    reach.only = None;
    reach.allow_hosts.push(format!("evil.test:{port}"));
    let door = server(move |_| to(&format!("http://evil.test.:{port}/"))).await;
    reach.allow_hosts.push(door.address.to_string());
    reach.http_hosts.push(door.address.to_string());
    let got = fetch(&web, &format!("http://{}/", door.address), &reach).await.unwrap();
    assert_eq!((got.body.as_slice(), other.hits.load(Ordering::SeqCst)), (&b"stolen"[..], 1));
}

/// A final dot of the host is removed before the lookup. The request goes to the checked address,
/// not to the result of a second lookup, and its `host` header has no final dot.
#[tokio::test(flavor = "multi_thread")]
async fn a_final_dot_changes_nothing() {
    let inside = server(|_| ok("inside")).await;
    let port = inside.address.port();
    let Ok(listener) = TcpListener::bind(("127.0.0.3", port)).await else { return };
    let checked = server_at(listener, |_| ok("checked")).await;
    let lookup = Arc::new(Counted(AtomicUsize::new(0), IpAddr::from([127, 0, 0, 3])));
    let web = Web::with(system_tls().unwrap(), lookup, |address| address == IpAddr::from([127, 0, 0, 3]));
    // The system resolves `localhost` to 127.0.0.1, so a second lookup would lead to `inside`.
    let plain = reach(&[], &["localhost".to_owned()]);
    for host in ["localhost", "localhost.", "LOCALHOST.", "localhost..", "localhost%2e", "localhost\u{3002}"] {
        let got = fetch(&web, &format!("http://{host}:{port}/"), &plain).await.unwrap();
        assert_eq!(got.body, b"checked", "{host}");
        assert!(checked.heard.lock().contains(&format!("host: localhost:{port}")), "{host}");
    }
    assert_eq!(inside.hits.load(Ordering::SeqCst), 0);
}
