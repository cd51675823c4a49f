package ringtrue.core

import java.io.Closeable
import java.io.IOException
import java.io.InputStream
import java.io.OutputStream
import java.net.InetAddress
import java.net.ServerSocket
import java.net.Socket
import java.util.concurrent.CopyOnWriteArrayList
import javax.net.ssl.ExtendedSSLSession
import javax.net.ssl.SNIHostName
import javax.net.ssl.SSLContext
import javax.net.ssl.SSLServerSocket
import javax.net.ssl.SSLSocket

internal class TestRequest(val target: String, val fields: Map<String, String>, val serverName: String?) {
    val path: String get() = target.substringBefore('?')
    val host: String get() = fields.getValue("host").substringBefore(':')
    val port: String get() = fields.getValue("host").substringAfter(':')
    val cookie: String? get() = fields["cookie"]
}

/** Accepts connections on loopback and lets [handler] write whatever it likes. */
internal class TestServer(
    tls: SSLContext? = null,
    tlsVersions: List<String>? = null,
    private val handler: (TestRequest, OutputStream) -> Unit,
) : Closeable {
    private val listener = bind(tls, tlsVersions)
    private val connections = CopyOnWriteArrayList<Socket>()
    val port: Int get() = listener.localPort
    val requests = CopyOnWriteArrayList<TestRequest>()

    init {
        background("test-server") {
            while (true) {
                val socket = listener.accept()
                connections.add(socket)
                background("test-connection") { socket.use(::serve) }
            }
        }
    }

    private fun bind(tls: SSLContext?, versions: List<String>?): ServerSocket {
        val loopback = InetAddress.getByName("127.0.0.1")
        if (tls == null) return ServerSocket(0, 50, loopback)
        val socket = tls.serverSocketFactory.createServerSocket(0, 50, loopback) as SSLServerSocket
        if (versions != null) socket.enabledProtocols = versions.toTypedArray()
        return socket
    }

    private fun serve(socket: Socket) {
        if (socket is SSLSocket) socket.startHandshake()
        val lines = readHead(socket.getInputStream())
        val session = (socket as? SSLSocket)?.session as? ExtendedSSLSession
        val name = session?.requestedServerNames?.filterIsInstance<SNIHostName>()?.firstOrNull()?.asciiName
        val fields = lines.drop(1).associate { it.substringBefore(':').lowercase() to it.substringAfter(": ") }
        check(lines[0].startsWith("GET ") && lines[0].endsWith(" HTTP/1.1")) { "not a GET request" }
        val request = TestRequest(lines[0].split(' ')[1], fields, name)
        requests.add(request)
        handler(request, socket.getOutputStream())
        socket.getOutputStream().flush()
    }

    private fun readHead(input: InputStream): List<String> {
        val text = StringBuilder()
        while (!text.endsWith("\r\n\r\n")) {
            val byte = input.read()
            if (byte < 0) throw IOException("no request")
            text.append(byte.toChar())
        }
        return text.toString().trimEnd().split("\r\n")
    }

    override fun close() {
        listener.close()
        connections.forEach { it.close() }
    }

    companion object {
        /** The peer closes connections while a test ends, so failures to send are expected. */
        fun background(name: String, action: () -> Unit) {
            val task = Runnable {
                try {
                    action()
                } catch (closed: IOException) {
                    return@Runnable
                }
            }
            Thread(task, name).apply { isDaemon = true }.start()
        }

        fun OutputStream.send(text: String) {
            write(text.toByteArray(Charsets.ISO_8859_1))
            flush()
        }

        fun OutputStream.redirect(location: String, vararg fields: String, status: Int = 302) {
            val extra = fields.joinToString("") { "$it\r\n" }
            send("HTTP/1.1 $status Found\r\nLocation: $location\r\n${extra}Content-Length: 0\r\n\r\n")
        }

        fun OutputStream.json(body: String, status: String = "200 OK", type: String = "application/json") {
            send("HTTP/1.1 $status\r\nContent-Type: $type\r\nContent-Length: ${body.length}\r\n\r\n$body")
        }

        fun OutputStream.end() = json("""{"check_id":"c-1","code":"$CODE"}""")

        const val CODE = "Vn3xq0J8pYkq2m1sTg7c5bHfR9uWzLd4KaXe6iMoQyA"
    }
}
