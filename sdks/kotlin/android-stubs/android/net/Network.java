package android.net;

public class Network {
    Network() {
        throw new RuntimeException("stub");
    }

    public java.net.InetAddress[] getAllByName(String host) throws java.net.UnknownHostException {
        throw new RuntimeException("stub");
    }

    public javax.net.SocketFactory getSocketFactory() {
        throw new RuntimeException("stub");
    }
}
