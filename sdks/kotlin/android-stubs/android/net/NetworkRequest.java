package android.net;

public class NetworkRequest {
    NetworkRequest() {
        throw new RuntimeException("stub");
    }

    public static class Builder {
        public Builder() {
            throw new RuntimeException("stub");
        }

        public Builder addCapability(int capability) {
            throw new RuntimeException("stub");
        }

        public Builder addTransportType(int transportType) {
            throw new RuntimeException("stub");
        }

        public NetworkRequest build() {
            throw new RuntimeException("stub");
        }
    }
}
