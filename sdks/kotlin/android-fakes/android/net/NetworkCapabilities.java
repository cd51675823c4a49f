package android.net;

/** Fake: has what a test adds. */
public final class NetworkCapabilities {
    public final java.util.Set<Integer> capabilities = new java.util.HashSet<>();
    public final java.util.Set<Integer> transports = new java.util.HashSet<>();

    public boolean hasCapability(int capability) {
        return capabilities.contains(capability);
    }

    public boolean hasTransport(int transportType) {
        return transports.contains(transportType);
    }
}
