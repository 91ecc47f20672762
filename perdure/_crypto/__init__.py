"""What keeps private texts private: keys, sealed fields, the codec of Temporal's payloads and its server."""
