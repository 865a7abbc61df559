//! A loopback HTTP proxy for a test suite that cannot send the `Authorization` header.
//!
//! The proxy sets `Authorization` and `Connection`, and replaces its own address in Host and Origin
//! with the address of the door. It passes all other headers and the body, including other Host and
//! Origin values, so that tests through the proxy still check how the door handles these headers.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const MAX_HEAD: usize = 64 * 1024;

/// Listens on a free port and forwards to `door` until the runtime ends.
pub async fn start(door: SocketAddr, token: &str) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let own = listener.local_addr()?;
    let token = token.to_owned();
    tokio::spawn(async move {
        loop {
            let Ok((client, _)) = listener.accept().await else { continue };
            let token = token.clone();
            tokio::spawn(async move {
                let _ = forward(client, own, door, &token).await;
            });
        }
    });
    Ok(own)
}

/// Forwards one request. `Connection: close` makes the door close the connection after its answer;
/// the client then opens another connection.
async fn forward(mut client: TcpStream, own: SocketAddr, door: SocketAddr, token: &str) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            break at;
        }
        if bytes.len() > MAX_HEAD || client.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    };
    let (head, body) = bytes.split_at(end + 4);
    let head = rewrite(&String::from_utf8_lossy(head), own, door, token);
    let mut server = TcpStream::connect(door).await?;
    server.set_nodelay(true)?;
    server.write_all(head.as_bytes()).await?;
    server.write_all(body).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

fn rewrite(head: &str, own: SocketAddr, door: SocketAddr, token: &str) -> String {
    let mut out = String::with_capacity(head.len() + 128);
    let names =
        |address: SocketAddr| ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{}", address.port()));
    for (index, line) in head.trim_end_matches("\r\n").split("\r\n").enumerate() {
        let Some((name, value)) = line.split_once(':').filter(|_| index > 0) else {
            out.push_str(line);
            out.push_str("\r\n");
            continue;
        };
        if name.eq_ignore_ascii_case("connection") || name.eq_ignore_ascii_case("authorization") {
            continue;
        }
        let mut value = value.trim().to_owned();
        if name.eq_ignore_ascii_case("host") || name.eq_ignore_ascii_case("origin") {
            for (ours, theirs) in names(own).into_iter().zip(names(door)) {
                if value == ours || value == format!("http://{ours}") {
                    value = value.replace(&ours, &theirs);
                }
            }
        }
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    out.push_str(&format!("Authorization: Bearer {token}\r\nConnection: close\r\n\r\n"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_authority_is_rewritten() {
        let (own, door) = (([127, 0, 0, 1], 1111).into(), ([127, 0, 0, 1], 2222).into());
        let head = "POST /mcp HTTP/1.1\r\nHost: localhost:1111\r\nOrigin: http://localhost:1111\r\nconnection: keep-alive\r\nX: y\r\n\r\n";
        assert_eq!(
            rewrite(head, own, door, "t"),
            "POST /mcp HTTP/1.1\r\nHost: localhost:2222\r\nOrigin: http://localhost:2222\r\nX: y\r\nAuthorization: Bearer t\r\nConnection: close\r\n\r\n"
        );
        let evil = "POST /mcp HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n\r\n";
        assert!(rewrite(evil, own, door, "t").contains("Host: evil.example\r\nOrigin: http://evil.example"));
    }
}
