package android.security;

/** Fake: permits the hosts that a test adds. */
public class NetworkSecurityPolicy {
    private static final NetworkSecurityPolicy INSTANCE = new NetworkSecurityPolicy();
    public final java.util.Set<String> permittedHosts = new java.util.HashSet<>();

    public static NetworkSecurityPolicy getInstance() {
        return INSTANCE;
    }

    public boolean isCleartextTrafficPermitted(String hostname) {
        return permittedHosts.contains(hostname);
    }
}
