package android.net;

public final class NetworkCapabilities {
    public static final int NET_CAPABILITY_INTERNET = 12;
    public static final int TRANSPORT_CELLULAR = 0;
    public static final int TRANSPORT_VPN = 4;

    NetworkCapabilities() {
        throw new RuntimeException("stub");
    }

    public boolean hasCapability(int capability) {
        throw new RuntimeException("stub");
    }

    public boolean hasTransport(int transportType) {
        throw new RuntimeException("stub");
    }
}
