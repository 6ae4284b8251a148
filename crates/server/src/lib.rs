//! wirepool-server
