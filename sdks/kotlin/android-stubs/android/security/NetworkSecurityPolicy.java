package android.security;

public class NetworkSecurityPolicy {
    NetworkSecurityPolicy() {
        throw new RuntimeException("stub");
    }

    public static NetworkSecurityPolicy getInstance() {
        throw new RuntimeException("stub");
    }

    public boolean isCleartextTrafficPermitted(String hostname) {
        throw new RuntimeException("stub");
    }
}
