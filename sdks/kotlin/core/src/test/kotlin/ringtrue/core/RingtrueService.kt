package ringtrue.core

import java.io.Closeable
import java.io.File
import java.net.URI
import java.net.URLEncoder
import java.net.http.HttpClient
import java.net.http.HttpRequest
import java.net.http.HttpRequest.BodyPublishers
import java.net.http.HttpResponse.BodyHandlers
import java.nio.file.Files
import java.util.concurrent.TimeUnit

/** `ringtrue dev` with its own data folder and port, and the calls that an app's backend makes. */
internal class RingtrueService private constructor(private val data: File, private var process: Process) : Closeable {
    private val settings = File(data, "dev.json").readText()
    private val http = HttpClient.newHttpClient()
    private val baseUrl = Response(settings).string("base_url")
    private val tokens = HashMap<String, String>()

    /** A JSON response, of which tests read a few members. */
    internal class Response(val text: String) {
        fun string(name: String): String = raw(name).removeSurrounding("\"")

        /** The first value of that name, as JSON. */
        fun raw(name: String): String = find(text, name)

        /** A member of the response itself, as JSON. */
        fun json(name: String): String =
            JsonObject.parse(text.toByteArray()).json(name) ?: throw AssertionError("no member `$name`")

        fun member(parent: String, name: String): String =
            find(text.substringAfter("\"$parent\":"), name).removeSurrounding("\"")

        private fun find(text: String, name: String): String =
            Regex("\"$name\"\\s*:\\s*(\"[^\"]*\"|[^,}\\s]+)").find(text)?.groupValues?.get(1)
                ?: throw AssertionError("no member `$name`")
    }

    /** Sends a request with a token for [scope]. */
    fun post(scope: String, path: String, body: String): Response {
        val request = HttpRequest.newBuilder(URI(baseUrl + path))
            .header("Authorization", "Bearer " + tokens.getOrPut(scope) { fetchToken(scope) })
            .header("Content-Type", "application/json")
        if (body.isEmpty()) request.POST(BodyPublishers.noBody()) else request.POST(BodyPublishers.ofString(body))
        return send(request)
    }

    /** Changes the project's settings. */
    fun configure(configuration: String) {
        val workspace = Response(settings).string("workspace_id")
        val project = Response(settings).string("project_id")
        val path = "/v1/management/workspaces/$workspace/projects/$project"
        val request = HttpRequest.newBuilder(URI(baseUrl + path))
            .header("Authorization", "Bearer " + fetchToken("management", "workspace"))
            .header("Content-Type", "application/merge-patch+json")
            .method("PATCH", BodyPublishers.ofString("""{"configuration":$configuration}"""))
        send(request)
    }

    private fun fetchToken(scope: String, holder: String = "project"): String {
        val client = Response(settings.substringAfter("\"$holder\""))
        val form = mapOf(
            "grant_type" to "client_credentials",
            "scope" to scope,
            "client_id" to client.string("client_id"),
            "client_secret" to client.string("client_secret"),
        ).entries.joinToString("&") { "${it.key}=${URLEncoder.encode(it.value, "UTF-8")}" }
        val request = HttpRequest.newBuilder(URI("$baseUrl/oauth2/token"))
            .header("Content-Type", "application/x-www-form-urlencoded")
            .POST(BodyPublishers.ofString(form))
        return send(request).string("access_token")
    }

    private fun send(request: HttpRequest.Builder): Response {
        val response = http.send(request.build(), BodyHandlers.ofString())
        check(response.statusCode() in 200..299) { "the service answered ${response.statusCode()}: ${response.body()}" }
        return Response(response.body())
    }

    fun restartInFuture() {
        stop(process)
        process = launch(data, URI(baseUrl).authority, mapOf("LD_PRELOAD" to FAKETIME_LIBRARY, "FAKETIME" to "+30m"))
    }

    override fun close() {
        stop(process)
        data.deleteRecursively()
    }

    companion object {
        /** Of the Debian package `faketime`, whose command would be a second process; the loader expands `$LIB`. */
        private const val FAKETIME_LIBRARY = "/usr/\$LIB/faketime/libfaketime.so.1"

        fun start(): RingtrueService {
            val data = Files.createTempDirectory("ringtrue-kotlin").toFile()
            return RingtrueService(data, launch(data, "127.0.0.1:0", mapOf()))
        }

        private fun launch(data: File, address: String, environment: Map<String, String>): Process {
            val binary = System.getenv("BINARY_UNDER_TEST")
            check(!binary.isNullOrEmpty()) { "BINARY_UNDER_TEST is not set" }
            val command = listOf(binary, "dev", "--data", data.path, "--listen", address)
            val builder = ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT)
            builder.environment().putAll(environment)
            val process = builder.start()
            val output = process.inputStream.bufferedReader()
            val banner = StringBuilder()
            // The banner ends with how to stop; dev.json is written before it.
            while (!banner.contains("Ctrl+C")) {
                val line = output.readLine() ?: throw AssertionError("ringtrue exited before it was ready:\n$banner")
                banner.append(line).append('\n')
            }
            return process
        }

        private fun stop(process: Process) {
            process.destroy()
            check(process.waitFor(60, TimeUnit.SECONDS)) { "the service does not stop" }
        }
    }
}
