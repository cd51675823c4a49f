package android.net;

/** Fake: records requests and lets a test answer them, on the thread that the test chooses. */
public class ConnectivityManager {
    public Network activeNetwork;
    public NetworkCapabilities activeCapabilities;
    public java.util.function.Consumer<NetworkCallback> onRequest = callback -> {};
    public final java.util.List<NetworkRequest> requests = new java.util.concurrent.CopyOnWriteArrayList<>();
    public final java.util.Set<NetworkCallback> registered = java.util.concurrent.ConcurrentHashMap.newKeySet();

    public Network getActiveNetwork() {
        return activeNetwork;
    }

    public NetworkCapabilities getNetworkCapabilities(Network network) {
        return network == activeNetwork ? activeCapabilities : null;
    }

    public void requestNetwork(NetworkRequest request, NetworkCallback networkCallback) {
        requests.add(request);
        registered.add(networkCallback);
        onRequest.accept(networkCallback);
    }

    public void unregisterNetworkCallback(NetworkCallback networkCallback) {
        if (!registered.remove(networkCallback)) {
            throw new IllegalArgumentException("NetworkCallback was not registered");
        }
    }

    public static class NetworkCallback {
        public void onAvailable(Network network) {}

        public void onLost(Network network) {}

        public void onUnavailable() {}
    }
}
