package android.net;

public class ConnectivityManager {
    ConnectivityManager() {
        throw new RuntimeException("stub");
    }

    public Network getActiveNetwork() {
        throw new RuntimeException("stub");
    }

    public NetworkCapabilities getNetworkCapabilities(Network network) {
        throw new RuntimeException("stub");
    }

    public void requestNetwork(NetworkRequest request, NetworkCallback networkCallback) {
        throw new RuntimeException("stub");
    }

    public void unregisterNetworkCallback(NetworkCallback networkCallback) {
        throw new RuntimeException("stub");
    }

    public static class NetworkCallback {
        public NetworkCallback() {
            throw new RuntimeException("stub");
        }

        public void onAvailable(Network network) {
            throw new RuntimeException("stub");
        }

        public void onLost(Network network) {
            throw new RuntimeException("stub");
        }

        public void onUnavailable() {
            throw new RuntimeException("stub");
        }
    }
}
