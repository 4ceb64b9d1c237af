//! Where connections come from: a port, or a socket file, which the proxy of this machine alone may open.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use chomp_durable_files::{FileError, Lock};
use socket2::{Domain, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream, UnixListener};

use super::connection::Stream;
use super::limits::{BACKLOG, GONE_TIME, UNSENT_BYTES};

/// The rights on a socket file: for its owner, and for the proxy, which is of its group.
const MODE: u32 = 0o660;

/// The address of the proxy at a socket file: one that no peer at a port has.
pub(super) const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// A source of connections.
#[derive(Debug)]
pub enum Listener {
    /// A port.
    Port(TcpListener),
    /// A socket file.
    File(SocketFile),
}

/// A socket file on which this process listens. Dropping it removes the file.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    listener: UnixListener,
    /// Held until the file is removed, and while a file is replaced.
    _lock: Lock,
}

impl SocketFile {
    /// Listens at `path`. A socket file on which nobody listens any more is replaced: a process that was killed has
    /// left it. Fails if somebody listens there, or something else has this name, or it cannot be made.
    pub fn listen(path: &Path) -> io::Result<SocketFile> {
        let lock = path.with_added_extension("lock");
        let lock = Lock::acquire(&lock).map_err(|error| match error {
            FileError::InUse { .. } => ErrorKind::AddrInUse.into(),
            error => io::Error::other(error),
        })?;
        let address = SockAddr::unix(path)?;
        let socket = || {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            // If the queue of a listener is full, `connect` fails at once, and does not wait.
            socket.set_nonblocking(true)?;
            io::Result::Ok(socket)
        };
        let found = fs::symlink_metadata(path);
        if found.is_ok_and(|found| found.file_type().is_socket())
            && let Err(error) = socket()?.connect(&address)
            && error.kind() == ErrorKind::ConnectionRefused
        {
            fs::remove_file(path)?;
        }
        let socket = socket()?;
        socket.bind(&address)?;
        // Nobody can connect before it listens.
        fs::set_permissions(path, Permissions::from_mode(MODE))?;
        socket.listen(BACKLOG)?;
        Ok(SocketFile {
            path: path.to_owned(),
            listener: UnixListener::from_std(socket.into())?,
            _lock: lock,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A file that cannot be removed is replaced by the next process that listens there.
        fs::remove_file(&self.path).unwrap_or(());
    }
}

impl Listener {
    /// The next connection, if it can be used, and the address of its peer.
    pub(super) async fn accept(&self) -> io::Result<(io::Result<Box<dyn Stream>>, SocketAddr)> {
        Ok(match self {
            Listener::Port(listener) => {
                let (stream, peer) = listener.accept().await?;
                (prepare(&stream).map(|()| Box::new(stream) as _), peer)
            }
            Listener::File(file) => {
                let (stream, _) = file.listener.accept().await?;
                let limited = SockRef::from(&stream).set_send_buffer_size(UNSENT_BYTES as usize);
                (limited.map(|()| Box::new(stream) as _), (PROXY, 0).into())
            }
        })
    }
}

/// Limits the unsent bytes in the kernel, and the time until the kernel notices that the peer is gone.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    #[cfg(target_os = "linux")]
    socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
    #[cfg(not(target_os = "linux"))]
    socket.set_send_buffer_size(UNSENT_BYTES as usize)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(GONE_TIME))?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(GONE_TIME / 2))?;
    Ok(())
}
