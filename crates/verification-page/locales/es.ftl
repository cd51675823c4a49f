number = Su número terminado en { $tail }
not-your-number = ¿No es su número?
sandbox = Modo de prueba: solo números de teléfono simulados
time-left = Tiempo restante:
support = ¿Necesita ayuda?
language = Idioma

## Silent check by the mobile operator

start-title = Confirme su número de teléfono
start-text = { $brand } le pide que confirme que este teléfono tiene su número. Active los datos móviles, desactive la wifi y continúe.
start-button = Confirmar este teléfono
start-computer-text = { $brand } le pide que confirme su número de teléfono. Continúe en el teléfono que tiene ese número:
scan-camera = Escanee el código con la cámara de su teléfono.
start-open = Abra el enlace que aparezca.
start-follow = Siga los pasos indicados. Esta página se actualiza por sí sola.
start-here = Continuar en este dispositivo
start-scan-label = Código QR de esta página
wallet-text = { $brand } desea confirmar que este teléfono tiene su número. Toque el botón y acepte en la pantalla siguiente. Puede seguir con la Wi-Fi.
wallet-button = Confirmar con el móvil
wallet-again = Toque el botón otra vez para continuar.
silent-title = Confirmando su número
silent-text = Su operador móvil está confirmando su número. Tarda unos segundos.
continue = Continuar
other-way = Probar de otra forma
stalled-title = Aún no hay respuesta
stalled-text = Su operador móvil no ha respondido. Inténtelo de nuevo o elija otra forma.
confirming-title = Casi listo
confirming-text = Su operador móvil ha respondido. { $brand } está completando la comprobación.
confirming-own-text = Su operador móvil ha respondido. Un paso más y habrá terminado.
confirming-elsewhere = Termine donde empezó. Esta página continúa por sí sola.
stalled-only-text = Su operador móvil no ha respondido. Compruebe que los datos móviles están activados y vuelva a intentarlo.
ask-whether-to-stop-title = ¿Terminar aquí?
ask-whether-to-stop-text = No hay otra forma de confirmar su número.
elsewhere-title = Continúe en su teléfono
elsewhere-text = Su número se está confirmando en su teléfono o en otro navegador. Esta página continúa por sí sola.
allow-cookies = Este paso necesita una cookie que su navegador ha bloqueado. Permita las cookies para esta página y vuelva a intentarlo.

## Text message from the user to us

text-title = Envíenos un SMS
text-text = Envíe el mensaje siguiente, sin cambiarlo, desde el teléfono que desea confirmar. Se aplica el precio habitual de los SMS de su operador.
text-warning = Envíe este SMS solo si fue usted quien empezó este proceso.
text-computer-text = Envíenos un SMS desde el teléfono que desea confirmar. Se aplica el precio habitual de los SMS de su operador.
text-open = Abra el mensaje que aparezca.
text-send = Envíelo sin cambiarlo.
text-by-hand = O escriba el mensaje manualmente
text-button = Abrir mensajes
text-scan-label = Código QR con el SMS
text-receiver = Para
text-body = Mensaje
copy-receiver = Copiar número
copy-body = Copiar mensaje
copied = Copiado
copy-failed = Su navegador ha bloqueado la copia. El texto está seleccionado: cópielo manualmente.
text-waiting = Esperando su mensaje…
text-cannot = No puedo enviar un SMS
other-sender-title = Envíelo desde la otra SIM
other-sender-text = Ese SMS llegó de otro número. Envíelo de nuevo con la SIM cuyo número termina en { $tail }.
received-title = Hemos recibido un mensaje
received-text = Lo estamos comprobando. Si esta página no continúa en unos segundos, vuelva a enviar el mensaje siguiente sin cambiarlo.
ask-whether-to-give-up-title = ¿No puede enviar un SMS?
ask-whether-to-give-up-text = Sin él no podemos confirmar su número.
ask-whether-to-give-up-yes = Terminar sin confirmar
ask-if-wrong-number-title = ¿No es su número?
ask-if-wrong-number-text = { $brand } pide confirmar el número que termina en { $tail }. Si no es suyo, termine aquí.
ask-if-wrong-number-yes = No es mi número
ask-no = Atrás

## SIM Swap check

sim-title = Una comprobación más
sim-text = Estamos preguntando a su operador móvil si su tarjeta SIM se ha cambiado recientemente.

## Results

done-title = Número confirmado
done-text = Gracias. Su número de teléfono está confirmado.
mismatch-title = Número no confirmado
mismatch-phone-text = Ese no es el número de este teléfono. Compruebe el número que dio a { $brand } e inténtelo de nuevo.
mismatch-text = El número que respondió no es el que dio a { $brand }. Compruebe el número e inténtelo de nuevo.
failed-title = No hemos podido confirmar su número
failed-text = Ninguna de las formas disponibles ha funcionado. Vuelva a { $brand } para intentarlo de nuevo.
given-up-title = Número no confirmado
given-up-text = Terminó antes de confirmar su número. Vuelva a { $brand } para intentarlo de nuevo.
wrong-number-title = Gracias por avisarnos
wrong-number-text = No se confirmó nada. Vuelva a { $brand } para indicar su número.
cancelled-title = Ya no es necesario
cancelled-text = { $brand } ha cancelado esta confirmación.
expired-title = Este enlace ha caducado
expired-text = El número no se confirmó a tiempo. Vuelva a { $brand } para empezar de nuevo.
return-link = Volver a { $brand }
close = Ya puede cerrar esta página.

## Errors

unknown-title = Este enlace no es válido
unknown-text = Compruebe que ha abierto el enlace completo o empiece de nuevo en el sitio que le ha enviado aquí.
busy-title = Demasiados intentos
busy-text = Espere un minuto e inténtelo de nuevo.
unavailable-title = Algo ha ido mal
unavailable-text = La página no está disponible en este momento. Inténtelo de nuevo en un minuto.
refused-title = Abra la página de nuevo
refused-text = Por su seguridad, solo puede continuar desde esta misma página.
retry = Intentar de nuevo

## Page of a single check, whose link was opened in a browser

enter-code-text = Introduzca este código en la aplicación o en el sitio que le ha enviado aquí. Sirve una sola vez y caduca pronto.
device-failed-text = Su operador móvil no ha podido confirmar su número. Vuelva a la aplicación o al sitio que le ha enviado aquí para probar de otra forma.
not-mobile-title = Este teléfono no usa datos móviles
not-mobile-text = Su número solo se puede confirmar con datos móviles. Desactive la wifi, vuelva a la aplicación o al sitio que le ha enviado aquí e inténtelo de nuevo.
used-title = Este enlace ya se ha usado
other-browser-title = Se empezó en otro navegador
other-browser-text = No se confirmó nada. Si lo empezó usted, vuelva al navegador en el que empezó. Si no, puede cerrar esta página.
start-again-text = Vuelva a la aplicación o al sitio que le ha enviado aquí para empezar de nuevo.
other-browser-cookies = Si sigue en ese navegador, permita las cookies y empiece de nuevo.

## Sign-in page, on which the user enters the phone number to sign in with

sign-in-title = Iniciar sesión en { $brand }
sign-in-text = Escriba su número de móvil. Después comprobaremos que es suyo.
sign-in-country = País o región
sign-in-choose-country = Elija…
sign-in-number = Número de móvil
sign-in-hint = Con o sin el prefijo del país
sign-in-sandbox-hint = Use un número simulado, por ejemplo { $example }
sign-in-privacy = Solo usamos su número para iniciar su sesión en { $brand }.
sign-in-discover = Usar el número de este móvil
sign-in-cancel = Cancelar
sign-in-enter-number = Escribir el número
sign-in-stalled-text = Su operador móvil no ha respondido. Inténtelo de nuevo o escriba su número.
sign-in-invalid = Esto no parece un número de teléfono. Revíselo e inténtelo de nuevo.
sign-in-not-supported = No podemos confirmar este número. Pruebe con otro número de móvil.
sign-in-too-many-attempts = Demasiados intentos con este número. Inténtelo más tarde o use otro número.
sign-in-try-later = Ahora no podemos comprobar números. Inténtelo de nuevo en un minuto.
sign-in-missing-country = Elija su país o empiece el número por + y el prefijo del país.
sign-in-ended-title = Continúe donde empezó
sign-in-ended-text = Aquí no hay nada más que hacer. Vuelva al navegador en el que empezó a iniciar sesión.
sign-in-cancelled-title = Inicio de sesión cancelado
sign-in-cancelled-text = No ha iniciado sesión. Vuelva a { $brand } para intentarlo de nuevo.
sign-in-expired-title = Ha pasado demasiado tiempo
sign-in-expired-text = Por su seguridad, tiene que empezar de nuevo. Vuelva a { $brand }.
sign-in-failed-text = No hemos podido iniciar su sesión. Vuelva a { $brand } para intentarlo de nuevo.
sign-in-refused-title = No podemos iniciar su sesión
sign-in-refused-text = La aplicación o el sitio que le envió aquí hizo una solicitud no válida. Vuelva e inténtelo de nuevo, o consulte a su servicio de ayuda.
sign-in-detail = Detalles para desarrolladores
