//! wirepool-backend
