package ringtrue.core

import org.junit.Assert.assertEquals
import org.junit.Test
import java.io.ByteArrayOutputStream
import java.io.PrintStream

/** Runs the README's program for a development machine, which was compiled against the packed library. */
class ReadmeTest {
    @Test
    fun theProgramPrintsACodeThatCanBeRedeemed() {
        RingtrueService.start().use { service ->
            val path = "/v1/number-verification/secure-sna-checks"
            val check = service.post("secure_sna", path, """{"phone_number":"+990123456700"}""")
            val code = output { main(arrayOf(check.string("url"))) }.trim()
            val result = service.post("secure_sna", "$path/${check.string("check_id")}", """{"code":"$code"}""")
            assertEquals("true", result.raw("match"))
        }
    }

    private fun main(arguments: Array<String>) {
        Class.forName("app.OpenCheck").getMethod("main", Array<String>::class.java).invoke(null, arguments)
    }

    private fun output(action: () -> Unit): String {
        val previous = System.out
        val captured = ByteArrayOutputStream()
        System.setOut(PrintStream(captured, true))
        try {
            action()
        } finally {
            System.setOut(previous)
        }
        return captured.toString()
    }
}
