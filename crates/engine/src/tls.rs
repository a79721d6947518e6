//! TLS as a session's plan has it: whom to trust, and under which name the server must prove itself.

use crate::error::EngineError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientConnection, ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, NamedGroup, RootCertStore, SignatureScheme};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tickets of TLS 1.3 that are held, each good for one connection: more than there are connections.
const TICKETS: usize = 100_000;

/// How a session's connections are encrypted. Every one makes a full handshake, unless it is told to resume.
#[derive(Clone, Debug)]
pub struct TlsPlan {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// What both sides must agree on (RFC 7301), if this side insists.
    protocol: Option<&'static [u8]>,
}

/// Whose certificates are believed.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Those that this machine believes.
    Platform,
    /// Those signed by what is in this file (PEM).
    File(&'a Path),
    /// Anybody's: the server proves nothing.
    Anybody,
}

fn refuse(problem: String, remedy: &'static str) -> EngineError {
    EngineError::Plan { field: "tls", problem, remedy }
}

impl TlsPlan {
    /// TLS 1.2 or 1.3, whichever the server prefers, with a server that proves to be `name`.
    ///
    /// # Errors
    /// [`EngineError::Plan`]: a name that no certificate can have, or nobody to trust.
    pub fn new(name: &str, trust: Trust) -> Result<Self, EngineError> {
        let server = ServerName::try_from(name.to_owned());
        let server = server.map_err(|_| refuse(format!("{name:?} given as the server's name"), "give a host name"))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| refuse(error.to_string(), "this is a defect, please report it"))?;
        let mut config = match trust {
            Trust::Anybody => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unchecked(provider)))
                .with_no_client_auth(),
            Trust::Platform | Trust::File(_) => builder.with_root_certificates(roots(trust)?).with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), name: server, protocol: None })
    }

    /// The same for HTTP/2, and for nothing else (ALPN's "h2": RFC 9113, 3.2).
    pub fn http2(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self { config: Arc::new(config), protocol: Some(b"h2"), name: self.name.clone() }
    }

    /// The same with connections that resume sessions of those before them, by tickets or by the server's memory.
    pub fn resuming(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::store(Arc::new(Sessions::default()));
        Self { config: Arc::new(config), ..self.clone() }
    }

    /// Whether a connection whose handshake is over may be used.
    ///
    /// # Errors
    /// Unsupported: the server agreed to another protocol, or to none.
    pub fn agreed(&self, connection: &ClientConnection) -> io::Result<()> {
        match self.protocol {
            Some(wanted) if connection.alpn_protocol() != Some(wanted) => {
                Err(io::Error::new(io::ErrorKind::Unsupported, "TLS: the server does not agree to HTTP/2 (ALPN h2)"))
            }
            _ => Ok(()),
        }
    }

    /// One connection's state, its greeting not sent yet.
    ///
    /// # Errors
    /// What rustls says.
    pub fn connection(&self) -> Result<ClientConnection, Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }
}

fn roots(trust: Trust) -> Result<RootCertStore, EngineError> {
    let mut store = RootCertStore::empty();
    if let Trust::File(path) = trust {
        let told = |why: String| refuse(format!("{}: {why}", path.display()), "give a file of certificates in PEM");
        let found = CertificateDer::pem_file_iter(path).map_err(|error| told(error.to_string()))?;
        for one in found {
            store.add(one.map_err(|error| told(error.to_string()))?).map_err(|error| told(error.to_string()))?;
        }
        return if store.is_empty() { Err(told("no certificate in it".into())) } else { Ok(store) };
    }
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if store.is_empty() {
        let problem = "this machine has no certificates that it trusts (ca-certificates)".into();
        return Err(refuse(problem, "name a file of them, or take any server's word"));
    }
    Ok(store)
}

/// Sessions of one server that may be taken up. Those of rustls hold eight tickets: of many connections that end
/// together and begin anew, only eight would resume.
#[derive(Debug, Default)]
struct Sessions(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    group: Option<NamedGroup>,
    session: Option<Tls12ClientSessionValue>,
    tickets: Vec<Tls13ClientSessionValue>,
}

impl Sessions {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.held().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.held().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.held().session = Some(session);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.held().session.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.held().session = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut held = self.held();
        if held.tickets.len() < TICKETS {
            held.tickets.push(ticket);
        }
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.held().tickets.pop()
    }
}

/// Believes every certificate; signatures are still looked at, as the handshake's own soundness.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
