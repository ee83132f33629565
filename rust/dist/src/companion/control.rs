//! The process that starts the carrier and never calls MPI, so that it lives whatever happens there.
//!
//! The controls of all machines are connected to that of the first one, the hub. Through these connections they exchange
//! what MPI asks for when it begins (a table of texts and a barrier, in the PMI-1 protocol that MPICH speaks), which rank
//! gave up and why, and which machine was lost: a connection ends with its process.

use std::collections::{BTreeSet, HashMap};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::line::Link;
use super::settings::Settings;
use crate::group::memory::{ABSENT, GroupMemory, LOST, PARTING, SERVING};

/// How often the ranks and the carrier are looked at.
const LOOK: Duration = Duration::from_millis(10);
/// How long a peer may take to show the secret.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long the carrier may take to part from the others after the last rank, and how long a failure may take to spread.
const PARTING_TIME: Duration = Duration::from_secs(6);
const SPREAD: Duration = Duration::from_millis(200);
/// How long to wait for the cause when the carrier has ended.
const CAUSE: Duration = Duration::from_millis(300);

/// In place of the carrier's number once it has ended.
const NO_CARRIER: libc::pid_t = 0;

struct Peer {
    link: Link,
    came: Instant,
    /// `None` until it has shown the secret.
    machine: Option<usize>,
}

pub struct Control<'a> {
    memory: &'a GroupMemory,
    settings: &'a Settings,
    carrier: libc::pid_t,
    /// The carrier's connection, on which it speaks PMI.
    pmi: Link,
    listener: Option<TcpListener>,
    /// The hub, or on the hub all others.
    peers: Vec<Peer>,
    keys: HashMap<String, String>,
    /// How many carriers wait in the barrier. Counted by the hub.
    inside: usize,
    parted: Vec<bool>,
    /// Whether the ranks have been told of a failure.
    has_reported: bool,
    /// The files of shared memory that MPI made while it began.
    files: BTreeSet<String>,
    /// Whether MPI has begun, so that its files are removed.
    has_removed_files: bool,
}

/// The ranks of a machine, for a sentence.
pub fn listed(memory: &GroupMemory, machine: usize) -> String {
    let ranks: Vec<String> = memory.places.members(machine).iter().map(usize::to_string).collect();
    format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, ranks.join(", "))
}

fn keep_alive(stream: &TcpStream) {
    let options = [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 3),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 2),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 4),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 10_000),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
    ];
    for (level, name, value) in options {
        let value: libc::c_int = value;
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the value lives during the call. An option that the kernel lacks is left alone.
        unsafe { libc::setsockopt(stream.as_raw_fd(), level, name, (&raw const value).cast(), size) };
    }
}

impl<'a> Control<'a> {
    pub fn new(
        memory: &'a GroupMemory,
        settings: &'a Settings,
        carrier: libc::pid_t,
        pmi: OwnedFd,
        listener: Option<TcpListener>,
    ) -> Control<'a> {
        Control {
            memory,
            settings,
            carrier,
            pmi: Link::new(pmi),
            listener,
            peers: Vec::new(),
            keys: HashMap::new(),
            inside: 0,
            parted: vec![false; memory.places.machines()],
            has_reported: false,
            files: BTreeSet::new(),
            has_removed_files: false,
        }
    }

    fn is_hub(&self) -> bool {
        self.listener.is_some()
    }

    /// Whether all ranks of this machine that ever came are gone.
    fn is_alone(&self) -> bool {
        let memory = self.memory;
        let absent = |rank| memory.cell(rank).state.load(Ordering::Acquire) == ABSENT;
        memory.places.local().iter().all(|&rank| absent(rank) || memory.departure(rank).is_some())
    }

    /// Ends the group with a reason that is not a rank's.
    fn fail(&self, why: &str) {
        if self.memory.failure().is_none() {
            self.memory.record_failure(self.memory.ranks, why);
            self.memory.wake_all();
        }
    }

    /// Connects to the hub.
    fn connect(&mut self) -> bool {
        let began = Instant::now();
        while began.elapsed() < self.settings.timeout && !self.is_alone() {
            for (host, port) in &self.settings.addresses {
                for address in (host.as_str(), *port).to_socket_addrs().into_iter().flatten() {
                    let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else { continue };
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    keep_alive(&stream);
                    let mut link = Link::new(stream.into());
                    link.send(&format!("hello {} {}", self.memory.places.own_machine(), self.settings.secret));
                    self.peers.push(Peer { link, came: Instant::now(), machine: Some(0) });
                    return true;
                }
            }
            std::thread::sleep(LOOK * 10);
        }
        let tried: Vec<String> = self.settings.addresses.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        self.fail(&format!("the machine of {} cannot be reached at {}", listed(self.memory, 0), tried.join(", ")));
        false
    }

    /// Serves until the ranks of this machine are gone.
    pub fn serve(&mut self) {
        if self.is_hub() || self.connect() {
            self.watch();
        }
        self.tell_failure();
        if self.memory.failure().is_none() {
            self.broadcast("bye", None);
        }
        let began = Instant::now();
        while began.elapsed() < SPREAD && self.peers.iter().any(|peer| peer.link.has_output()) {
            self.exchange();
        }
        if self.carrier != NO_CARRIER {
            // SAFETY: the carrier is this process's child, which has not been waited for.
            unsafe { libc::kill(self.carrier, libc::SIGKILL) };
        }
        self.remove_files();
    }

    /// Watches until the ranks of this machine are gone.
    fn watch(&mut self) {
        let (mut ended, mut alone): (Option<(Instant, String)>, Option<Instant>) = (None, None);
        loop {
            self.exchange();
            self.watch_files();
            if ended.is_none() {
                ended = self.carrier_end().map(|why| (Instant::now(), why));
            }
            if let Some((since, why)) = &ended
                && !why.is_empty()
                && since.elapsed() >= CAUSE
            {
                let ranks = listed(self.memory, self.memory.places.own_machine());
                self.fail(&format!("the MPI process of the machine of {ranks} {why}"));
            }
            self.tell_failure();
            if self.is_alone() {
                let since = alone.get_or_insert_with(Instant::now).elapsed();
                let limit = match self.memory.header().served.load(Ordering::Acquire) {
                    _ if self.memory.failure().is_some() => SPREAD,
                    // What the ranks sent is not delivered yet.
                    SERVING => Duration::MAX,
                    PARTING => PARTING_TIME,
                    _ => SPREAD,
                };
                if ended.is_some() || since >= limit {
                    break;
                }
            }
        }
    }

    /// Removes the names of the shared memory that MPI makes when it begins, which would stay if the carrier were killed. No
    /// other process opens it, because there is one on each machine.
    fn watch_files(&mut self) {
        if self.has_removed_files {
            return;
        }
        self.has_removed_files = self.memory.header().served.load(Ordering::Acquire) != 0;
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.carrier)).unwrap_or_default();
        let names = maps.lines().filter_map(|line| line.find("/dev/shm/mpich_shm_").map(|at| line[at..].to_owned()));
        self.files.extend(names.filter(|name| !name.ends_with(" (deleted)")));
        if self.has_removed_files {
            self.remove_files();
        }
    }

    fn remove_files(&mut self) {
        for name in std::mem::take(&mut self.files) {
            let _ = std::fs::remove_file(name);
        }
    }

    /// How the carrier ended, if it has; nothing if it ended well.
    fn carrier_end(&mut self) -> Option<String> {
        let mut status = 0;
        // SAFETY: the carrier is this process's child.
        if unsafe { libc::waitpid(self.carrier, &raw mut status, libc::WNOHANG) } != self.carrier {
            return None;
        }
        // Its number may be another process's from now on.
        self.carrier = NO_CARRIER;
        Some(match (libc::WIFSIGNALED(status), libc::WEXITSTATUS(status)) {
            (true, _) => format!("ended with signal {}", libc::WTERMSIG(status)),
            (_, 0) => String::new(),
            (_, code) => format!("ended with code {code}"),
        })
    }

    fn tell_failure(&mut self) {
        if !self.has_reported
            && let Some((rank, why)) = self.memory.failure()
        {
            self.has_reported = true;
            self.broadcast(&format!("failed {rank} {}", why.replace('\n', " ")), None);
        }
    }

    /// Sends a line to the hub, or from the hub to all machines but one.
    fn broadcast(&mut self, line: &str, but: Option<usize>) {
        for peer in &mut self.peers {
            if peer.machine.is_some() && peer.machine != but {
                peer.link.send(line);
            }
        }
    }

    /// Waits a short time for lines and handles them.
    fn exchange(&mut self) {
        let mut watched: Vec<libc::pollfd> = Vec::new();
        let mut watch = |descriptor, output| {
            let events = if output { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
            watched.push(libc::pollfd { fd: descriptor, events, revents: 0 });
        };
        self.listener.iter().for_each(|listener| watch(listener.as_raw_fd(), false));
        let open = |link: &Link| if link.is_closed { -1 } else { link.descriptor() };
        self.peers.iter().for_each(|peer| watch(open(&peer.link), peer.link.has_output()));
        watch(open(&self.pmi), self.pmi.has_output());
        // SAFETY: the array has so many entries.
        unsafe { libc::poll(watched.as_mut_ptr(), watched.len() as libc::nfds_t, LOOK.as_millis() as libc::c_int) };
        while let Some((stream, _)) = self.listener.as_ref().and_then(|listener| listener.accept().ok()) {
            if stream.set_nonblocking(true).is_ok() && self.peers.len() < 2 * self.parted.len() + 64 {
                keep_alive(&stream);
                self.peers.push(Peer { link: Link::new(stream.into()), came: Instant::now(), machine: None });
            }
        }
        for line in self.pmi.receive() {
            self.answer(&line);
        }
        self.pmi.flush();
        for index in 0..self.peers.len() {
            self.peers[index].link.flush();
            for line in self.peers[index].link.receive() {
                match self.peers[index].machine {
                    Some(machine) => self.handle(machine, &line),
                    None => self.welcome(index, &line),
                }
            }
        }
        let closed: Vec<usize> =
            self.peers.iter().filter(|peer| peer.link.is_closed).filter_map(|peer| peer.machine).collect();
        self.peers.retain(|peer| !peer.link.is_closed && (peer.machine.is_some() || peer.came.elapsed() < HANDSHAKE));
        for machine in closed {
            if !self.parted[machine] {
                self.lose(machine);
                self.broadcast(&format!("lost {machine}"), None);
            }
        }
    }

    /// Lets another machine in that knows the secret.
    fn welcome(&mut self, index: usize, line: &str) {
        let mut words = line.split(' ');
        let hello = words.next() == Some("hello");
        let machine = words.next().and_then(|word| word.parse().ok()).filter(|&machine| machine < self.parted.len());
        let known = self.peers.iter().any(|peer| peer.machine == machine);
        if !hello || machine.is_none() || known || words.next() != Some(self.settings.secret.as_str()) {
            self.peers[index].link.is_closed = true;
            return;
        }
        let peer = &mut self.peers[index];
        peer.machine = machine;
        self.keys.iter().for_each(|(key, value)| peer.link.send(&format!("put {key} {value}")));
        if self.has_reported
            && let Some((rank, why)) = self.memory.failure()
        {
            peer.link.send(&format!("failed {rank} {why}"));
        }
    }

    /// A line of another machine.
    fn handle(&mut self, from: usize, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (number, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let number_below = |limit: usize| number.parse().ok().filter(|&number: &usize| number < limit);
        match word {
            "put" => {
                self.keys.insert(number.to_owned(), text.to_owned());
            }
            "inside" => return self.enter_barrier(),
            "outside" => return self.pmi.send("cmd=barrier_out"),
            "failed" => {
                let Some(rank) = number_below(self.memory.ranks + 1) else { return };
                self.has_reported = true;
                if self.memory.failure().is_none() {
                    self.memory.record_failure(rank, text);
                    self.memory.wake_all();
                }
            }
            "lost" => {
                if let Some(machine) = number_below(self.parted.len()) {
                    self.lose(machine);
                }
            }
            "bye" => {
                self.parted[from] = true;
                return;
            }
            _ => return,
        }
        if self.is_hub() {
            self.broadcast(line, Some(from));
        }
    }

    /// Notes that a machine, or its companion, is gone.
    fn lose(&mut self, machine: usize) {
        for &rank in self.memory.places.members(machine) {
            self.memory.cell(rank).state.store(LOST, Ordering::Release);
        }
        self.has_reported = true;
        self.fail(&format!("the machine of {} was lost", listed(self.memory, machine)));
    }

    /// Counts a carrier that came to the barrier.
    fn enter_barrier(&mut self) {
        self.inside += 1;
        if self.inside == self.parted.len() {
            self.inside = 0;
            self.broadcast("outside", None);
            self.pmi.send("cmd=barrier_out");
        }
    }

    /// Answers a line of the carrier in the PMI-1 protocol.
    fn answer(&mut self, line: &str) {
        let fields: HashMap<&str, &str> = line.split(' ').filter_map(|field| field.split_once('=')).collect();
        let field = |name| fields.get(name).copied().unwrap_or_default();
        let answer = match field("cmd") {
            "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned(),
            "get_maxes" => "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024".to_owned(),
            "get_appnum" => "cmd=appnum appnum=0".to_owned(),
            "get_my_kvsname" => format!("cmd=my_kvsname kvsname={}", self.settings.name),
            "get_universe_size" => format!("cmd=universe_size size={}", self.parted.len()),
            "put" => {
                let (key, value) = (field("key").to_owned(), field("value").to_owned());
                self.broadcast(&format!("put {key} {value}"), None);
                self.keys.insert(key, value);
                "cmd=put_result rc=0 msg=success".to_owned()
            }
            "get" => match self.keys.get(field("key")) {
                Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                None => "cmd=get_result rc=-1 msg=key_not_found value=unknown".to_owned(),
            },
            "barrier_in" if self.is_hub() => return self.enter_barrier(),
            "barrier_in" => return self.broadcast("inside", None),
            "finalize" => "cmd=finalize_ack".to_owned(),
            _ => return,
        };
        self.pmi.send(&answer);
    }
}
