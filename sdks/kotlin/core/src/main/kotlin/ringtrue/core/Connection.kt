package ringtrue.core

import java.io.BufferedInputStream
import java.io.Closeable
import java.io.IOException
import java.io.InputStream
import java.net.InetAddress
import java.net.InetSocketAddress
import java.net.Socket
import java.net.SocketTimeoutException
import java.util.concurrent.CancellationException
import java.util.concurrent.ExecutionException
import java.util.concurrent.FutureTask
import java.util.concurrent.TimeUnit
import java.util.concurrent.TimeoutException
import javax.net.SocketFactory
import javax.net.ssl.SNIHostName
import javax.net.ssl.SSLException
import javax.net.ssl.SSLSocket
import javax.net.ssl.SSLSocketFactory

internal class ConnectionException(val stage: ConnectionStage, cause: Throwable?) : Exception(cause)

internal class AddressRefusedException : Exception()

/** Opens connections within the deadline of a [StopSignal]. */
internal class Connector(
    private val sockets: SocketFactory,
    private val resolver: (String) -> List<InetAddress>,
    private val options: CheckOptions,
    private val signal: StopSignal,
) {
    /** Sends one request and passes the response to [read]. The connection is not used again. */
    fun <T> exchange(url: HttpUrl, request: ByteArray, read: (ResponseReader) -> T): T {
        val plain = connect(url, permittedAddresses(url))
        try {
            val socket = if (url.secure) startTls(plain, url) else plain
            try {
                return transfer(socket, request, read)
            } finally {
                // Without waiting for the peer's close_notify: the plain socket goes first.
                signal.release(plain)
                if (socket !== plain) signal.release(socket)
            }
        } finally {
            signal.release(plain)
        }
    }

    private fun <T> transfer(socket: Socket, request: ByteArray, read: (ResponseReader) -> T): T {
        try {
            socket.getOutputStream().apply {
                write(request)
                flush()
            }
        } catch (broken: IOException) {
            // A server may answer and close before it has read the request: the response decides.
            signal.throwIfStopped()
        }
        try {
            return read(ResponseReader(BufferedInputStream(DeadlineInput(socket))))
        } catch (slow: SocketTimeoutException) {
            throw slow
        } catch (broken: IOException) {
            throw ConnectionException(ConnectionStage.TRANSFER, broken)
        }
    }

    private fun permittedAddresses(url: HttpUrl): List<InetAddress> {
        val addresses =
            when {
                url.address != null -> listOf(url.address)

                // Resolvers may answer anything for it (RFC 6761, section 6.3).
                url.host == HttpUrl.LOCALHOST -> LOOPBACK

                else -> resolve(url.host)
            }
        if (addresses.isEmpty()) throw ConnectionException(ConnectionStage.RESOLVE, null)
        val permitted = addresses.filter { IpAddresses.isPermitted(it, options.allowLoopback) }
        if (permitted.isEmpty()) throw AddressRefusedException()
        return permitted.take(MAX_ADDRESSES)
    }

    /** Resolves on another thread, because resolvers cannot be interrupted. */
    private fun resolve(host: String): List<InetAddress> {
        val task = FutureTask { resolver(host) }
        val canceller = signal.guard(Closeable { task.cancel(false) })
        try {
            Thread(task, "ringtrue-resolver").apply { isDaemon = true }.start()
            return task.get(signal.remainingMillis.toLong(), TimeUnit.MILLISECONDS)
        } catch (failed: ExecutionException) {
            throw ConnectionException(ConnectionStage.RESOLVE, failed.cause)
        } catch (slow: TimeoutException) {
            throw SocketTimeoutException()
        } catch (stopped: CancellationException) {
            throw StoppedException()
        } finally {
            signal.release(canceller)
        }
    }

    private fun connect(url: HttpUrl, addresses: List<InetAddress>): Socket {
        var lastFailure: IOException? = null
        for ((index, address) in addresses.withIndex()) {
            val socket =
                try {
                    signal.guard(sockets.createSocket())
                } catch (failed: IOException) {
                    throw ConnectionException(ConnectionStage.CONNECT, failed)
                }
            try {
                // An address that does not answer leaves time for the others.
                val timeout = (signal.remainingMillis / (addresses.size - index)).coerceAtLeast(1)
                socket.connect(InetSocketAddress(address, url.port), timeout)
                return socket
            } catch (failed: IOException) {
                signal.release(socket)
                signal.throwIfStopped()
                lastFailure = failed
            } catch (failed: RuntimeException) {
                signal.release(socket)
                throw failed
            }
        }
        if (lastFailure is SocketTimeoutException) throw lastFailure
        throw ConnectionException(ConnectionStage.CONNECT, lastFailure)
    }

    private fun startTls(plain: Socket, url: HttpUrl): SSLSocket {
        try {
            plain.soTimeout = signal.remainingMillis
            val factory = options.tls ?: SSLSocketFactory.getDefault() as SSLSocketFactory
            val socket = signal.guard(factory.createSocket(plain, url.host, url.port, true) as SSLSocket)
            val versions = socket.supportedProtocols.filter { it in TLS_VERSIONS }
            if (versions.isEmpty()) throw SSLException("TLS 1.2 is not supported")
            socket.enabledProtocols = versions.toTypedArray()
            socket.useClientMode = true
            val parameters = socket.sslParameters
            parameters.endpointIdentificationAlgorithm = "HTTPS"
            serverName(url)?.let { parameters.serverNames = listOf(it) }
            socket.sslParameters = parameters
            socket.startHandshake()
            val verifier = options.hostnameVerifier
            if (verifier != null && !verifier.verify(url.host, socket.session)) {
                throw SSLException("the certificate is for another host")
            }
            return socket
        } catch (slow: SocketTimeoutException) {
            throw slow
        } catch (failed: IOException) {
            throw ConnectionException(ConnectionStage.TLS, failed)
        }
    }

    /** Addresses are not sent as server names (RFC 6066, section 3), nor are names that the class does not accept. */
    private fun serverName(url: HttpUrl): SNIHostName? = try {
        if (url.address == null) SNIHostName(url.host) else null
    } catch (invalid: IllegalArgumentException) {
        null
    }

    /** Limits every read to the time that is left, in case closing a socket does not wake its reader. */
    private inner class DeadlineInput(private val socket: Socket) : InputStream() {
        private val input = socket.getInputStream()

        override fun read(): Int {
            val single = ByteArray(1)
            return if (read(single, 0, 1) < 0) -1 else single[0].toInt() and 0xFF
        }

        override fun read(bytes: ByteArray, offset: Int, length: Int): Int {
            signal.throwIfStopped()
            socket.soTimeout = signal.remainingMillis
            return input.read(bytes, offset, length)
        }
    }

    private companion object {
        const val MAX_ADDRESSES = 8
        val TLS_VERSIONS = setOf("TLSv1.2", "TLSv1.3")
        val LOOPBACK: List<InetAddress> =
            listOf("127.0.0.1", "::1").map {
                InetAddress.getByAddress(IpAddresses.parseIpv4(it) ?: IpAddresses.parseIpv6(it)!!)
            }
    }
}
