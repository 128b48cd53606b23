//! TLS: certificates from PEM files, client certificates, reloading.

use crate::config;
use arc_swap::ArcSwap;
use firndb::{Error, Result};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The certificates of the server. They can be replaced while it runs.
pub struct ServerTls {
    options: config::Tls,
    current: ArcSwap<rustls::ServerConfig>,
}

/// Chooses the implementation of the cryptography for this process.
pub fn install_provider() {
    // Fails if it was chosen before, which is the same choice.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

impl ServerTls {
    /// Reads the certificates.
    pub fn load(options: &config::Tls) -> Result<ServerTls> {
        let current = ArcSwap::from_pointee(read(options)?);
        Ok(ServerTls { options: options.clone(), current })
    }

    /// Reads the certificates again. After an error the old ones stay in use.
    pub fn reload(&self) -> Result<()> {
        self.current.store(Arc::new(read(&self.options)?));
        Ok(())
    }

    /// Makes the handshake of a connection. Also returns whether the client has presented a
    /// certificate, which was verified then.
    pub async fn accept(&self, socket: TcpStream) -> io::Result<(TlsStream<TcpStream>, bool)> {
        let stream = TlsAcceptor::from(self.current.load_full()).accept(socket).await?;
        let has_certificate = stream.get_ref().1.peer_certificates().is_some();
        Ok((stream, has_certificate))
    }
}

fn read(options: &config::Tls) -> Result<rustls::ServerConfig> {
    install_provider();
    let chain = certificates(&options.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&options.key).map_err(|e| pem(&options.key, &e))?;
    let builder = rustls::ServerConfig::builder();
    let builder = match &options.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|e| invalid(file, &e))?;
            }
            let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
            builder.with_client_cert_verifier(verifier.map_err(|e| invalid(file, &e))?)
        }
    };
    let config = builder.with_single_cert(chain, key);
    let mut config = config.map_err(|e| invalid(&options.certificate, &e))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_file_iter(file).map_err(|e| pem(file, &e))?;
    let all: Vec<_> = all.collect::<std::result::Result<_, _>>().map_err(|e| pem(file, &e))?;
    match all.is_empty() {
        true => Err(Error::invalid("the file has no certificate in PEM").in_file(file)),
        false => Ok(all),
    }
}

fn pem(file: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::invalid(format!("cannot read a certificate or key in PEM: {error}")).in_file(file)
}

fn invalid(file: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::invalid(format!("the certificates cannot be used: {error}")).in_file(file)
}
