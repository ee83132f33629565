//! The store with its clients in one process, and the memory of a group.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rushlight_core::{Storage, shared};

use super::group::Places;
use super::group::memory::{self, ABSENT, GroupMemory};
use super::wire::Message;
use super::{Client, Request, Response, Server, Table};

const LONG: Duration = Duration::from_secs(30);

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn client(server: &Server) -> Client {
    Client::connect("127.0.0.1", server.port(), b"token", LONG, &mut || Ok(())).unwrap()
}

fn server() -> Server {
    Server::new("127.0.0.1", 0, bytes("token")).unwrap()
}

#[test]
fn a_table_answers() {
    let table = Table::default();
    assert_eq!(table.handle(Request::Get(vec![bytes("a")])), Response::Bool(false));
    assert_eq!(table.handle(Request::Set(bytes("a"), bytes("x"))), Response::Bool(true));
    assert_eq!(table.handle(Request::Add(bytes("n"), 5)), Response::Number(5));
    assert_eq!(table.handle(Request::Add(bytes("n"), -7)), Response::Number(-2));
    assert!(matches!(table.handle(Request::Add(bytes("n"), i64::MIN)), Response::Refused(_)));
    assert!(matches!(table.handle(Request::Add(bytes("a"), 1)), Response::Refused(_)));
    assert_eq!(table.handle(Request::Append(bytes("a"), bytes("y"))), Response::Bool(true));
    let both = Request::Get(vec![bytes("a"), bytes("n")]);
    assert_eq!(table.handle(both), Response::Values(vec![bytes("xy"), bytes("-2")]));
    let compare =
        |expected: &str, desired: &str| table.handle(Request::CompareSet(bytes("c"), bytes(expected), bytes(desired)));
    assert_eq!(compare("x", "one"), Response::Values(vec![bytes("x")]));
    assert_eq!(compare("", "one"), Response::Values(vec![bytes("one")]));
    assert_eq!(compare("x", "two"), Response::Values(vec![bytes("one")]));
    assert_eq!(compare("one", "two"), Response::Values(vec![bytes("two")]));
    assert_eq!(table.handle(Request::Delete(bytes("c"))), Response::Bool(true));
    assert_eq!(table.handle(Request::Delete(bytes("c"))), Response::Bool(false));
    assert_eq!(table.handle(Request::Keys), Response::Values(vec![bytes("a"), bytes("n")]));
}

#[test]
fn peers_wait_for_each_other() {
    let server = server();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let client = client(&server);
            while client.send(Request::Wait(vec![bytes("late")]), LONG, &mut || Ok(())).unwrap() != Response::Bool(true)
            {
            }
            client.send(Request::Get(vec![bytes("late")]), LONG, &mut || Ok(())).unwrap()
        });
        client(&server).send(Request::Set(bytes("late"), bytes("here")), LONG, &mut || Ok(())).unwrap();
        assert_eq!(waiting.join().unwrap(), Response::Values(vec![bytes("here")]));
    });
}

#[test]
fn strangers_are_sent_away() {
    let server = server();
    let wrong = Client::connect("127.0.0.1", server.port(), b"other", LONG, &mut || Ok(()));
    assert_eq!(wrong.err().unwrap().kind(), ErrorKind::PermissionDenied);
    // Garbage, false lengths and silence end only that connection.
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0, 255, 255, 255, 255], &[0, 1, 0, 0, 0, 255, 255, 255, 127], &[]]
    {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        // The server may have closed the connection already.
        let _ = stream.write_all(garbage).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() <= 10, "{rest:?}");
    }
    assert_eq!(client(&server).send(Request::Keys, LONG, &mut || Ok(())).unwrap(), Response::Values(vec![]));
}

#[test]
fn who_lost_the_server_is_told() {
    let server = server();
    let client = client(&server);
    client.send(Request::Keys, LONG, &mut || Ok(())).unwrap();
    let port = server.port();
    drop(server);
    assert!(client.send(Request::Keys, LONG, &mut || Ok(())).is_err());
    let again = client.send(Request::Keys, LONG, &mut || Ok(()));
    assert_eq!(again.unwrap_err().kind(), ErrorKind::NotConnected);
    let short = Duration::from_millis(150);
    assert!(Client::connect("127.0.0.1", port, b"token", short, &mut || Ok(())).is_err());
}

#[test]
fn a_wait_can_be_interrupted() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // There is no server; the pause function interrupts the wait.
    let found = Client::connect("127.0.0.1", port, b"", LONG, &mut || Err(ErrorKind::Interrupted.into()));
    assert_eq!(found.err().unwrap().kind(), ErrorKind::Interrupted);
}

#[test]
fn a_request_within_a_request_is_an_error() {
    // A server that accepts the connection and never answers, so that the request is interrupted for certain.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            Message::read_any(&mut stream).unwrap();
            Message::from(Response::Bool(true)).write(&mut stream).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let client = Client::connect("127.0.0.1", port, b"", LONG, &mut || Ok(())).unwrap();
        let mut inner = None;
        let found = client.send(Request::Keys, LONG, &mut || {
            inner = Some(client.send(Request::Keys, LONG, &mut || Ok(())).unwrap_err().kind());
            Err(ErrorKind::Interrupted.into())
        });
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Interrupted);
        assert_eq!(inner, Some(ErrorKind::ResourceBusy));
    });
}

#[test]
fn a_connection_with_itself_is_known() {
    use std::os::fd::FromRawFd;
    // SAFETY: a new socket; an address of its size, of which the system fills in the port; the stream owns the socket.
    let own = unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        let mut address: libc::sockaddr_in = std::mem::zeroed();
        address.sin_family = libc::AF_INET as libc::sa_family_t;
        address.sin_addr.s_addr = u32::from(std::net::Ipv4Addr::LOCALHOST).to_be();
        let (place, mut size) = ((&raw mut address).cast::<libc::sockaddr>(), size_of_val(&address) as libc::socklen_t);
        assert_eq!(libc::bind(socket, place, size), 0);
        assert_eq!(libc::getsockname(socket, place, &raw mut size), 0);
        assert_eq!(libc::connect(socket, place, size), 0);
        TcpStream::from_raw_fd(socket)
    };
    assert!(super::client::is_itself(&own).unwrap());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    assert!(!super::client::is_itself(&other).unwrap());
}

#[test]
fn a_rank_that_joins_is_not_taken_for_dead() {
    let places = || Places::new(vec![0], 0).unwrap();
    let storage = Storage::heap(memory::size(&places())).unwrap();
    shared::share(&storage).unwrap();
    let memory = GroupMemory::new(storage, 0, places()).unwrap();
    for _ in 0..2_000 {
        memory.own().state.store(ABSENT, Ordering::Release);
        memory.own().pid.store(0, Ordering::Release);
        std::thread::scope(|scope| {
            let joins = scope.spawn(|| memory.join().unwrap());
            while !joins.is_finished() {
                assert_eq!(memory.departure(0), None);
            }
        });
    }
}
