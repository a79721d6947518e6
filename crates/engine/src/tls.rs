//! TLS as a session's plan has it: which certificates to trust, and the name that the server must prove.

use crate::error::EngineError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientConnection, ClientSessionStore, Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue,
    WebPkiServerVerifier, verify_server_name,
};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, NamedGroup, RootCertStore,
    SignatureScheme,
};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tickets of TLS 1.3 that are kept, each for one connection: more than there are connections.
const TICKETS: usize = 100_000;

/// How a session's connections are encrypted. Each makes a full handshake, unless the session resumes.
#[derive(Clone, Debug)]
pub struct TlsPlan {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// The protocol that both sides must agree on (RFC 7301), if there is one.
    protocol: Option<&'static [u8]>,
}

/// Which certificates are trusted.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Those that this machine trusts.
    Platform,
    /// The certificates in this file (PEM), and those that they have signed.
    File(&'a Path),
    /// All: the server proves nothing.
    Anybody,
}

fn refuse(problem: String, remedy: &'static str) -> EngineError {
    EngineError::Plan { field: "tls", problem, remedy }
}

impl TlsPlan {
    /// TLS 1.2 or 1.3, whichever the server prefers, with a server that proves to be `name`.
    ///
    /// # Errors
    /// [`EngineError::Plan`]: no certificate can have this name, or no certificate to trust was given.
    pub fn new(name: &str, trust: Trust) -> Result<Self, EngineError> {
        let server = ServerName::try_from(name.to_owned());
        let server = server.map_err(|_| refuse(format!("{name:?} given as the server's name"), "give a host name"))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| refuse(error.to_string(), "this is a defect, please report it"))?;
        let verifier = Arc::new(Verifier::new(trust, provider)?);
        let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), name: server, protocol: None })
    }

    /// The same for HTTP/2 only (ALPN's "h2": RFC 9113, 3.2).
    pub fn http2(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self { config: Arc::new(config), protocol: Some(b"h2"), name: self.name.clone() }
    }

    /// The same; connections resume earlier sessions, by tickets or by the server's memory.
    pub fn resuming(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::store(Arc::new(Sessions::default()));
        Self { config: Arc::new(config), ..self.clone() }
    }

    /// Whether a connection whose handshake is complete may be used.
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

    /// The state of a new connection; nothing was sent yet.
    ///
    /// # Errors
    /// The error of rustls.
    pub fn connection(&self) -> Result<ClientConnection, Error> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone())
    }
}

/// Sessions of one server that can be resumed. The store of rustls holds eight tickets: of many connections that end
/// and begin together, only eight would resume.
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

/// Checks certificates as [`Trust`] says; signatures are always checked, because the handshake depends on them.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// None: every certificate is trusted.
    usual: Option<Arc<WebPkiServerVerifier>>,
    /// The certificates in the user's file. The usual verifier refuses a server that shows one of them if it is an
    /// authority's, as `openssl req -x509` makes them, or if another authority signed it; curl accepts both.
    named: Vec<CertificateDer<'static>>,
}

/// The text of the usual verifier's error if a server shows an authority's certificate. Its type is not exported.
const AUTHORITY: &str = "CaUsedAsEndEntity";

impl Verifier {
    fn new(trust: Trust, provider: Arc<CryptoProvider>) -> Result<Self, EngineError> {
        let (mut store, mut named) = (RootCertStore::empty(), Vec::new());
        match trust {
            Trust::Anybody => return Ok(Self { provider, usual: None, named }),
            Trust::Platform => {
                store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if store.is_empty() {
                    let problem = "this machine has no certificates that it trusts (ca-certificates)".into();
                    return Err(refuse(problem, "name a file of certificates, or accept any certificate"));
                }
            }
            Trust::File(path) => {
                let refused =
                    |why: String| refuse(format!("{}: {why}", path.display()), "give a file of certificates in PEM");
                for one in CertificateDer::pem_file_iter(path).map_err(|error| refused(error.to_string()))? {
                    let one = one.map_err(|error| refused(error.to_string()))?;
                    store.add(one.clone()).map_err(|error| refused(words(&error)))?;
                    named.push(one);
                }
                if named.is_empty() {
                    return Err(refused("no certificate in it".into()));
                }
            }
        }
        let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(&provider))
            .build()
            .map_err(|error| refuse(error.to_string(), "this is a defect, please report it"))?;
        Ok(Self { provider, usual: Some(usual), named })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(usual) = &self.usual else { return Ok(ServerCertVerified::assertion()) };
        let refused = match usual.verify_server_cert(shown, between, name, ocsp, now) {
            Err(Error::InvalidCertificate(why)) => why,
            other => return other,
        };
        // The usual verifier looks at the time first, then at who signed, then at the name: only the name is left.
        let of_signer = refused == CertificateError::UnknownIssuer || is_authority(&refused);
        if !(of_signer && self.named.iter().any(|one| one == shown)) {
            return Err(Error::InvalidCertificate(refused));
        }
        verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn is_authority(refused: &CertificateError) -> bool {
    matches!(refused, CertificateError::Other(other) if other.0.to_string() == AUTHORITY)
}

/// What rustls found wrong, as text for the user.
pub fn words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(refused) => format!("the server's certificate {}", about(refused)),
        Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            "the server does not agree to the protocol that was offered (ALPN)".into()
        }
        Error::AlertReceived(alert) => format!("the server ended the handshake (TLS alert {})", u8::from(*alert)),
        Error::InvalidMessage(_) => "the server's bytes are not TLS".into(),
        Error::PeerIncompatible(_) => "the server supports no TLS version or cipher that Dragstrip offers".into(),
        Error::PeerMisbehaved(_) => "the server breaks the rules of TLS".into(),
        Error::DecryptError => "the server's bytes can't be decrypted".into(),
        other => other.to_string(),
    }
}

fn about(refused: &CertificateError) -> String {
    use CertificateError as Why;
    match refused {
        Why::Expired | Why::ExpiredContext { .. } => "has expired".into(),
        Why::NotValidYet | Why::NotValidYetContext { .. } => "is not valid yet".into(),
        Why::UnknownIssuer => "has an unknown issuer".into(),
        Why::NotValidForName => "is for another name".into(),
        Why::NotValidForNameContext { expected, presented } => {
            let names: Vec<_> = presented.iter().map(|name| bare(name)).collect();
            let names = if names.is_empty() { "it has no subjectAltName".into() } else { names.join(", ") };
            format!("is for another name ({names}) than {}", expected.to_str())
        }
        Why::BadSignature => "has a wrong signature".into(),
        Why::Revoked => "was revoked".into(),
        Why::BadEncoding => "can't be read".into(),
        Why::InvalidPurpose | Why::InvalidPurposeContext { .. } => "is not meant for a server".into(),
        Why::UnsupportedSignatureAlgorithmContext { .. }
        | Why::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "is signed by an algorithm that Dragstrip does not support".into()
        }
        other if is_authority(other) => "has an unknown issuer: itself, an authority that was not named".into(),
        other => format!("is refused ({other})"),
    }
}

/// `DnsName("localhost")`, as the library has it, without the library's own words.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').map_or(name, |(_, rest)| rest.strip_suffix(')').unwrap_or(rest));
    inner.trim_matches('"')
}
