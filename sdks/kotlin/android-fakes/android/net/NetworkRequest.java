package android.net;

/** Fake: keeps what was requested. */
public class NetworkRequest {
    public final java.util.Set<Integer> capabilities = new java.util.HashSet<>();
    public final java.util.Set<Integer> transports = new java.util.HashSet<>();

    public static class Builder {
        private final NetworkRequest request = new NetworkRequest();

        public Builder addCapability(int capability) {
            request.capabilities.add(capability);
            return this;
        }

        public Builder addTransportType(int transportType) {
            request.transports.add(transportType);
            return this;
        }

        public NetworkRequest build() {
            return request;
        }
    }
}
