//! The daemon: starts, runs and stops all threads and services of one home.
//!
//! Threads: the owner (`owner`), the port scanner (`owner::ports`), the watcher of the
//! configuration file (`config_file`), the workers (`owner::dispatch`), and two small runtimes for
//! sockets. They communicate by messages. Each of the few locks has a comment with its reason.

use crate::config_check;
use crate::config_file;
use crate::config_file::accepted::Store;
use crate::config_file::watch::Watch;
use crate::doors::console::{self, Console};
use crate::doors::control::{self, Caller, Control};
use crate::doors::phone::{self, Phone};
use crate::gateway::owner_events::GatewayEvents;
use crate::gateway::{Gateway, live_watch};
use crate::home::{Home, HomeError};
use crate::log::Log;
use crate::owner::dispatch::{Dispatch, Hosts};
use crate::owner::wake::{Wake, Waker};
use crate::owner::{self, backends, desktop, ports};
use arc_swap::ArcSwap;
use conductor_core::config::Device;
use conductor_core::engine::Engine;
use conductor_core::error::ToolError;
use conductor_core::mapping::table::Slots;
use conductor_gateway::builtin::BuiltinTools;
use conductor_gateway::owner_handle::OwnerHandle;
use conductor_gateway::report::Modes;
use conductor_hosts::desktop::volume::SystemVolume;
use conductor_hosts::desktop::{Backends, Session};
use conductor_hosts::midi::loopback::Loopback;
use conductor_hosts::midi::ring::Bell;
use conductor_hosts::midi::try_lock::TryLock;
use conductor_hosts::midi::{Announce, Backend, Stamp};
use conductor_hosts::system::listener::{BindError, Listener, Peer};
use conductor_hosts::system::lock_file::LockFile;
use conductor_hosts::system::signals::EndSignals;
use conductor_hosts::system::{Clock, Ids, priority};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::io;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{Builder, JoinHandle};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

pub struct Options {
    pub home: Home,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub log: Log,
    /// The tools of the catalog.
    pub tools: BuiltinTools,
    /// The text that is written to `config.toml` if the file does not exist.
    pub first_config: Cow<'static, str>,
    /// Devices that are added to those in the file. They exist until the daemon stops.
    pub extra_devices: Vec<Device>,
}

/// The parts of the machine that a test can replace.
#[derive(Default)]
pub struct Machine {
    /// The desktop session to type on and to watch.
    pub desktop: Session,
    /// Further MIDI backends. Each gets the daemon's clock and a callback for changes to its ports.
    pub backends: Vec<MakeBackend>,
    /// Whether approval requests are shown as desktop notifications while no console page is
    /// visible.
    pub notifications: bool,
}

pub type MakeBackend = Box<dyn FnOnce(Stamp, Announce) -> Box<dyn Backend>>;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}")]
    Home(#[from] HomeError),
    #[error("{0}")]
    Socket(#[from] BindError),
    #[error("{0}")]
    Gateway(#[from] crate::gateway::GatewayError),
    #[error("a thread or a runtime could not be started: {0}")]
    System(#[from] io::Error),
}

/// A running daemon. [`Daemon::stop`] stops it cleanly.
pub struct Daemon {
    handle: OwnerHandle,
    waker: Waker,
    log: Log,
    gateway: Arc<Gateway>,
    /// Whether this start created `config.toml`.
    pub wrote_config: bool,
    stop: CancellationToken,
    runtime: Runtime,
    human: Runtime,
    doors: tokio::task::JoinHandle<()>,
    control: Arc<Control>,
    owner: JoinHandle<()>,
    owner_ended: oneshot::Receiver<()>,
    ports: (mpsc::Sender<ports::Order>, Arc<ports::ScanSignal>, JoinHandle<()>),
    config: (mpsc::Sender<config_file::Order>, JoinHandle<()>),
    desktop: desktop::Desktop,
    // Dropped last: as soon as the lock is released, another daemon may use the home.
    lock: LockFile,
}

impl Daemon {
    /// Starts the daemon without a desktop.
    pub fn start(options: Options) -> Result<Self, StartError> {
        Self::start_on(Machine::default(), options)
    }

    pub fn start_on(machine: Machine, options: Options) -> Result<Self, StartError> {
        let Machine { desktop: session, backends: more, notifications } = machine;
        let Options { home, clock, ids, log, tools, first_config, extra_devices } = options;
        home.create()?;
        let lock = home.lock()?;
        let wrote_config = write_first_config(&home, &first_config, &log);
        write_schema(&home, &log);
        let (config_orders, config_orders_in) = mpsc::channel();
        // Start the watch before reading the file, so that no later change is missed.
        let (watch, watch_error) = Watch::start(&home.config_file(), config_orders.clone());
        let watch_error = watch_error.map(|error| format!("{error}; config.toml is not watched, only read on request"));
        if let Some(reason) = &watch_error {
            log.warn(format_args!("watch: {reason}"));
        }
        let store = Store::new(home.root(), ids.clone(), crate::gateway::grants::secrets_of(home.root(), &ids), &log);
        let opened = config_file::ConfigWatcher::open(
            home.config_file(),
            extra_devices,
            clock.clone(),
            log.clone(),
            store,
            watch,
        );
        let config_file::Opened { watcher: mut config_watcher, serving, error: config_error } = opened;

        // Two workers: a call is answered in the task that reads it, so one worker serves a client
        // while the other is free for the next client. Long computations and disk access run on the
        // blocking threads.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        // Use separate threads for requests from people, so that AI clients cannot delay them.
        let human = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("human-door")
            .enable_all()
            .build()?;
        // Bind the socket before opening any device: if the daemon cannot start, it must not send
        // MIDI.
        let socket = {
            let _inside = human.enter();
            Listener::bind(&home.control_socket())?
        };
        let mcp_socket = runtime.block_on(Gateway::bind(&home))?;

        let published = Arc::new(ArcSwap::from(serving.clone()));
        let slots: ports::SharedSlots = Arc::new(Mutex::new(Slots::default()));
        let (wakes, wakes_in) = mpsc::channel();
        let (ports_orders, ports_orders_in) = mpsc::channel();
        let owner_thread: Arc<OnceLock<std::thread::Thread>> = Arc::default();
        let bell = {
            let owner = owner_thread.clone();
            // Device callbacks call this function. `unpark` neither locks nor allocates.
            Bell::new(move || {
                if let Some(owner) = owner.get() {
                    owner.unpark();
                }
            })
        };
        let modes = Arc::new(ArcSwap::from_pointee(Modes::of(&serving.config, "")));
        let waker = Waker { wakes, bell: bell.clone(), config: config_orders.clone() };
        let handle = OwnerHandle::new(Arc::new(waker.clone()), published.clone(), modes.clone());
        let gateway =
            Arc::new(Gateway::open(&tools, &home, (&clock, &ids), &handle, &serving, runtime.handle().clone(), &log)?);
        let events = Arc::new(GatewayEvents::start(&gateway, &waker)?);

        let post = |waker: &Waker| {
            let waker = waker.clone();
            move |wake: Wake| waker.post(wake)
        };
        config_watcher.set_secrets(gateway.grants.secrets.clone());
        let notify = post(&waker);
        let remarks: config_file::Remarks = Arc::default();
        let examine = config_check::examiner(&gateway.studio, &handle, runtime.handle().clone());
        let shared_remarks = remarks.clone();
        let config_thread = Builder::new()
            .name("config".into())
            .spawn(move || config_watcher.run(&config_orders_in, notify, &examine, &shared_remarks))?;

        let scan_signal: Arc<ports::ScanSignal> = Arc::default();
        let stamp: Stamp = {
            let clock = clock.clone();
            Arc::new(move || clock.now())
        };
        let announce: Announce = {
            let scan_signal = scan_signal.clone();
            Arc::new(move |_| scan_signal.ports_changed())
        };
        let desk = {
            let engine = Engine::new(&serving.config, &mut slots.lock(), clock.now());
            TryLock::held(owner::desk::Desk::new(engine))
        };
        let shared_desk: conductor_hosts::midi::Desk = desk.lock();
        let mut sources = backends::all(&stamp, &announce, &shared_desk);
        sources.extend(more.into_iter().map(|make| ports::Source::of(make(stamp.clone(), announce.clone()))));
        let scanner = ports::PortScanner::new(ports::Parts {
            sources,
            loopback: Loopback::new(stamp.clone(), announce),
            stamp,
            config: serving.config.clone(),
            slots: slots.clone(),
            bell: bell.clone(),
            signal: scan_signal.clone(),
            clock: clock.clone(),
        });
        let notify = post(&waker);
        let ports_thread = Builder::new().name("ports".into()).spawn(move || scanner.run(&ports_orders_in, notify))?;

        let mut keys = Backends::of(&session);
        keys.prepare();
        let display_fault = Some(session.focus_fault().unwrap_or("no connection to the desktop yet").to_owned());
        let desktop = desktop::Desktop::start(session, &waker)?;
        let hosts = Hosts { desktop: Box::new(keys), mixer: Box::new(SystemVolume), events: events.clone() };
        let parts = owner::Parts {
            clock: clock.clone(),
            log: log.clone(),
            bell,
            wakes: wakes_in,
            ports: ports_orders.clone(),
            scan_signal: scan_signal.clone(),
            slots,
            serving: published,
            modes,
            dispatch: Dispatch::start(hosts, waker.clone(), &log)?,
            config_error,
            remarks,
            watch_error,
            display_fault,
            programs: desktop.apps_wanted(),
            events,
        };
        let owner = owner::Owner::new(parts, desk);
        let mut waiting = gateway.studio.approvals.store().watch();
        let waiting_waker = waker.clone();
        runtime.spawn(async move {
            waiting.mark_changed();
            // The loop ends when the approval store is dropped.
            while waiting.changed().await.is_ok() {
                waiting_waker.post(Wake::Waiting(*waiting.borrow_and_update()));
            }
        });
        let (ended, owner_ended) = oneshot::channel();
        let owner_log = log.clone();
        let owner = Builder::new().name(owner::OWNER.into()).spawn(move || {
            // A wake-up before this line is not lost: the owner reads all messages before it waits
            // for the first time.
            let _ = owner_thread.set(std::thread::current());
            if let Err(why) = priority::raise() {
                owner_log.debug(format_args!("the engine thread has normal priority: {why}"));
            }
            owner.run();
            drop(ended);
        })?;

        let stop = CancellationToken::new();
        let control = Arc::new(Control {
            handle: handle.clone(),
            home,
            stop: stop.clone(),
            clients: gateway.shared.clients.clone(),
            gateway: gateway.clone(),
        });
        let mcp = runtime.spawn(Gateway::serve(gateway.clone(), mcp_socket));
        runtime.spawn(Gateway::watch_plugins(gateway.clone(), serving.config.watch.debounce_ms.into()));
        runtime.spawn(live_watch::run(gateway.clone(), waker.clone()));
        let console = Console::new(&control);
        gateway.http.serve_console(console::routes(&console));
        console.start(&human.handle().clone(), &stop, notifications);
        let phone = Phone::new(&control);
        gateway.phone.serve(phone::routes(&phone));
        gateway.open_phone_listener(&serving.config);
        human.spawn(phone::ntfy::run(phone, stop.clone()));
        let human_door = Arc::clone(&control);
        let doors = human.spawn(async move {
            control::serve(human_door, socket).await;
            // The MCP listener ends when the gateway stops.
            let _ = mcp.await;
        });
        Ok(Daemon {
            handle,
            waker,
            log,
            gateway,
            wrote_config,
            stop,
            runtime,
            human,
            doors,
            control,
            owner,
            owner_ended,
            ports: (ports_orders, scan_signal, ports_thread),
            config: (config_orders, config_thread),
            desktop,
            lock,
        })
    }

    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// A one-time link to the console, for the person whose terminal runs this process.
    pub fn console_link(&self) -> Result<String, ToolError> {
        let uid = conductor_hosts::system::processes::current_user();
        let peer = Peer { uid, pid: i32::try_from(std::process::id()).ok() };
        let person = self.control.person(Caller { peer, connection: 0 })?;
        let link = console::link(&self.control, &person, false)?;
        Ok(link["link"].as_str().unwrap_or_default().to_owned())
    }

    pub fn handle(&self) -> &OwnerHandle {
        &self.handle
    }

    /// Runs a future on the daemon's runtime.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(future);
    }

    /// Installs signal handlers, so that a signal stops the daemon cleanly. Call this before
    /// reporting that the daemon is ready: an earlier signal would kill the process while notes are
    /// still sounding.
    pub fn heed_signals(&self) -> io::Result<EndSignals> {
        let _inside = self.runtime.enter();
        EndSignals::catch()
    }

    /// Waits for a signal, for a stop request from a client, or for the owner thread to fail.
    pub fn wait(&mut self, mut signals: EndSignals) -> io::Result<()> {
        let (stop, owner_ended) = (&self.stop, &mut self.owner_ended);
        self.runtime.block_on(async {
            tokio::select! {
                () = signals.received() => Ok(()),
                () = stop.cancelled() => Ok(()),
                _ = owner_ended => Err(io::Error::other("the owner thread ended unexpectedly")),
            }
        })
    }

    /// Stops the daemon: the owner releases held notes and keys, sockets and devices are closed,
    /// and the home is unlocked.
    pub fn stop(self) {
        let Daemon { waker, log, gateway, stop, runtime, human, doors, owner, ports, config, desktop, lock, .. } = self;
        // Stop the owner first, so that listeners on a port receive the last note-off.
        waker.post(Wake::Stop);
        let _ = owner.join();
        desktop.stop();
        stop.cancel();
        gateway.stop(&runtime);
        // If a server task panicked, its sockets are already closed.
        let _ = runtime.block_on(doors);
        let (orders, scan_signal, thread) = ports;
        let _ = orders.send(ports::Order::End);
        scan_signal.wake();
        let _ = thread.join();
        let (orders, thread) = config;
        let _ = orders.send(config_file::Order::End);
        let _ = thread.join();
        drop((human, runtime));
        log.flush();
        drop(lock);
    }
}

/// Writes the schema of this version, so that editors can check and complete all keys.
fn write_schema(home: &Home, log: &Log) {
    let path = home.schema_file();
    let schema = conductor_core::config::reference::schema_text();
    if std::fs::read_to_string(&path).is_ok_and(|it| it == schema) {
        return;
    }
    if let Err(error) = std::fs::write(&path, schema) {
        log.warn(format_args!("{}: {error}; editors cannot check config.toml", path.display()));
    }
}

/// Writes the first `config.toml` and returns whether it was written. If it cannot be written, the
/// daemon starts without it.
fn write_first_config(home: &Home, text: &str, log: &Log) -> bool {
    use std::io::Write;
    let path = home.config_file();
    let written = std::fs::File::create_new(&path).and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => {
            log.warn(format_args!("{}: {error}; the built-in empty mode is in force", path.display()));
            false
        }
    }
}
