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

/// Stands for the address of a proxy that connects over a socket file. No peer at a port has this address.
pub(crate) const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

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
    /// Keeps other processes from replacing the file. It is acquired before the file is made, and released after the
    /// file is removed.
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
            // Makes `connect` fail at once, and not wait, if the queue of a listener is full.
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
        // The socket does not listen yet, so nobody can connect before the permissions are set.
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
    /// The next connection, or the error that makes it unusable, and the address of its peer.
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
