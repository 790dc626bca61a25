//! Tests over real sockets, all of them on ephemeral loopback ports.
