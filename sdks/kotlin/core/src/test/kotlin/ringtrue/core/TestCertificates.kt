package ringtrue.core

import java.io.File
import java.nio.file.Files
import java.security.KeyStore
import java.util.concurrent.TimeUnit
import javax.net.ssl.KeyManagerFactory
import javax.net.ssl.SSLContext
import javax.net.ssl.TrustManagerFactory

/** A self-signed certificate for `operator.test`, and contexts that present and trust it. */
internal object TestCertificates {
    private const val PASSWORD = "certificate"

    val context: SSLContext by lazy {
        val folder = Files.createTempDirectory("ringtrue-kotlin-tls").toFile()
        try {
            contextFrom(generate(folder))
        } finally {
            folder.deleteRecursively()
        }
    }

    private fun generate(folder: File): KeyStore {
        val file = File(folder, "keys.p12")
        val keytool = File(System.getProperty("java.home"), "bin/keytool").path
        val command = listOf(
            keytool, "-genkeypair", "-alias", "server", "-keyalg", "EC", "-groupname", "secp256r1",
            "-dname", "CN=operator.test", "-ext", "san=dns:operator.test", "-validity", "2",
            "-keystore", file.path, "-storetype", "PKCS12", "-storepass", PASSWORD,
        )
        val process = ProcessBuilder(command).redirectErrorStream(true).start()
        val output = process.inputStream.bufferedReader().readText()
        check(process.waitFor(60, TimeUnit.SECONDS) && process.exitValue() == 0) { "keytool failed: $output" }
        val keys = KeyStore.getInstance("PKCS12")
        file.inputStream().use { keys.load(it, PASSWORD.toCharArray()) }
        return keys
    }

    private fun contextFrom(keys: KeyStore): SSLContext {
        val trusted = KeyStore.getInstance("PKCS12")
        trusted.load(null, null)
        trusted.setCertificateEntry("server", keys.getCertificate("server"))
        val keyManagers = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm())
        keyManagers.init(keys, PASSWORD.toCharArray())
        val trustManagers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm())
        trustManagers.init(trusted)
        val context = SSLContext.getInstance("TLS")
        context.init(keyManagers.keyManagers, trustManagers.trustManagers, null)
        return context
    }
}
