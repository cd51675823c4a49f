package android.net;

/** Fake: resolves the names that a test adds, and counts sockets. */
public class Network {
    public final java.util.Map<String, java.net.InetAddress> names = new java.util.HashMap<>();
    public javax.net.SocketFactory socketFactory = javax.net.SocketFactory.getDefault();

    public java.net.InetAddress[] getAllByName(String host) throws java.net.UnknownHostException {
        java.net.InetAddress address = names.get(host);
        if (address == null) {
            throw new java.net.UnknownHostException(host);
        }
        return new java.net.InetAddress[] {address};
    }

    public javax.net.SocketFactory getSocketFactory() {
        return socketFactory;
    }
}
