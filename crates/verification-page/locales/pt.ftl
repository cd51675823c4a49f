number = O seu número terminado em { $tail }
not-your-number = Não é o seu número?
sandbox = Modo de teste: apenas números de telefone simulados
time-left = Tempo restante:
support = Precisa de ajuda?
language = Idioma

## Silent check by the mobile operator

start-title = Confirme o seu número de telefone
start-text = { $brand } pede que confirme que este telefone tem o seu número. Ative os dados móveis, desative o Wi-Fi e continue.
start-button = Confirmar este telefone
start-computer-text = { $brand } pede que confirme o seu número de telefone. Continue no telefone que tem esse número:
scan-camera = Aponte a câmara do seu telefone para o código.
start-open = Abra o link que aparecer.
start-follow = Siga os passos indicados. Esta página atualiza-se sozinha.
start-here = Continuar neste dispositivo
start-scan-label = Código QR desta página
wallet-text = { $brand } gostaria de confirmar que este telefone tem o seu número. Toque no botão e aceite no ecrã seguinte. O Wi-Fi pode continuar ligado.
wallet-button = Confirmar com telefone
wallet-again = Toque novamente no botão para continuar.
silent-title = Confirmação do seu número
silent-text = A sua operadora móvel está a confirmar o seu número. Demora alguns segundos.
continue = Continuar
other-way = Tentar de outra forma
stalled-title = Ainda sem resposta
stalled-text = A sua operadora móvel não respondeu. Tente novamente ou escolha outra forma.
confirming-title = Quase pronto
confirming-text = A sua operadora móvel respondeu. { $brand } está a concluir a verificação.
confirming-own-text = A sua operadora móvel respondeu. Só falta um passo.
confirming-elsewhere = Termine onde começou. Esta página continua sozinha.
stalled-only-text = A sua operadora móvel não respondeu. Verifique se os dados móveis estão ligados e tente novamente.
ask-whether-to-stop-title = Terminar aqui?
ask-whether-to-stop-text = Não há outra forma de confirmar o seu número.
elsewhere-title = Continue no seu telefone
elsewhere-text = O seu número está a ser confirmado no seu telefone ou noutro navegador. Esta página continua sozinha.
allow-cookies = Este passo precisa de um cookie que o seu navegador bloqueou. Permita cookies para esta página e tente novamente.

## Text message from the user to us

text-title = Envie-nos um SMS
text-text = Envie a mensagem abaixo, sem a alterar, a partir do telefone que deseja confirmar. Aplica-se o preço habitual de um SMS da sua operadora.
text-warning = Só envie este SMS se foi você que começou este processo.
text-computer-text = Envie-nos um SMS a partir do telefone que deseja confirmar. Aplica-se o preço habitual de um SMS da sua operadora.
text-open = Abra a mensagem que aparecer.
text-send = Envie-a sem a alterar.
text-by-hand = Ou escreva a mensagem manualmente
text-button = Abrir mensagens
text-scan-label = Código QR com o SMS
text-receiver = Para
text-body = Mensagem
copy-receiver = Copiar número
copy-body = Copiar mensagem
copied = Copiado
copy-failed = O seu navegador bloqueou a cópia. O texto está selecionado: copie-o manualmente.
text-waiting = À espera da sua mensagem…
text-cannot = Não consigo enviar um SMS
other-sender-title = Envie a partir do outro SIM
other-sender-text = Esse SMS veio de outro número. Envie-o de novo com o SIM cujo número termina em { $tail }.
received-title = Recebemos uma mensagem
received-text = Estamos a verificá-la. Se esta página não continuar dentro de alguns segundos, envie novamente a mensagem abaixo, sem a alterar.
ask-whether-to-give-up-title = Não consegue enviar um SMS?
ask-whether-to-give-up-text = Sem ele não podemos confirmar o seu número.
ask-whether-to-give-up-yes = Terminar sem confirmar
ask-if-wrong-number-title = Não é o seu número?
ask-if-wrong-number-text = { $brand } pede para confirmar o número terminado em { $tail }. Se não é o seu, termine aqui.
ask-if-wrong-number-yes = Não é o meu número
ask-no = Voltar

## SIM Swap check

sim-title = Mais uma verificação
sim-text = Estamos a perguntar à sua operadora móvel se o seu cartão SIM foi trocado recentemente.

## Results

done-title = Número confirmado
done-text = Obrigado. O seu número de telefone está confirmado.
mismatch-title = Número não confirmado
mismatch-phone-text = Esse não é o número deste telefone. Verifique o número que deu a { $brand } e tente novamente.
mismatch-text = O número que respondeu não é o que deu a { $brand }. Verifique o número e tente novamente.
failed-title = Não conseguimos confirmar o seu número
failed-text = Nenhuma das formas disponíveis funcionou. Volte a { $brand } para tentar novamente.
given-up-title = Número não confirmado
given-up-text = Terminou antes de o número ser confirmado. Volte a { $brand } para tentar novamente.
wrong-number-title = Obrigado por nos avisar
wrong-number-text = Nada foi confirmado. Volte a { $brand } para indicar o seu número.
cancelled-title = Já não é necessário
cancelled-text = { $brand } cancelou esta confirmação.
expired-title = Este link expirou
expired-text = O número não foi confirmado a tempo. Volte a { $brand } para recomeçar.
return-link = Voltar a { $brand }
close = Já pode fechar esta página.

## Errors

unknown-title = Este link não é válido
unknown-text = Verifique se abriu o link completo ou recomece no site que o trouxe até aqui.
busy-title = Demasiadas tentativas
busy-text = Aguarde um minuto e tente novamente.
unavailable-title = Algo correu mal
unavailable-text = A página não está disponível neste momento. Tente novamente dentro de um minuto.
refused-title = Abra a página novamente
refused-text = Para sua segurança, só pode continuar a partir desta própria página.
retry = Tentar novamente

## Page of a single check, whose link was opened in a browser

enter-code-text = Introduza este código na aplicação ou no site que o trouxe até aqui. Só pode ser usado uma vez e expira em breve.
device-failed-text = A sua operadora móvel não conseguiu confirmar o seu número. Volte à aplicação ou ao site que o trouxe até aqui para tentar de outra forma.
not-mobile-title = Este telefone não está a usar dados móveis
not-mobile-text = O seu número só pode ser confirmado através de dados móveis. Desative o Wi-Fi, volte à aplicação ou ao site que o trouxe até aqui e tente novamente.
used-title = Este link já foi usado
other-browser-title = Começou noutro navegador
other-browser-text = Nada foi confirmado. Se foi você que começou, volte ao navegador onde começou. Caso contrário, pode fechar esta página.
start-again-text = Volte à aplicação ou ao site que o trouxe até aqui para recomeçar.
other-browser-cookies = Se ainda está nesse navegador, permita cookies e comece de novo.

## Sign-in page, on which the user enters the phone number to sign in with

sign-in-title = Iniciar sessão em { $brand }
sign-in-text = Escreva o seu número de telemóvel. A seguir, verificamos que é seu.
sign-in-country = País ou região
sign-in-choose-country = Escolher…
sign-in-number = Número de telemóvel
sign-in-hint = Com ou sem o indicativo do país
sign-in-sandbox-hint = Use um número simulado, por exemplo { $example }
sign-in-privacy = Só usamos o seu número para iniciar a sua sessão em { $brand }.
sign-in-discover = Usar número deste telemóvel
sign-in-cancel = Cancelar
sign-in-enter-number = Escrever o número
sign-in-stalled-text = A sua operadora móvel não respondeu. Tente de novo ou escreva o seu número.
sign-in-invalid = Isto não parece um número de telefone. Verifique-o e tente de novo.
sign-in-not-supported = Não conseguimos confirmar este número. Tente outro número de telemóvel.
sign-in-too-many-attempts = Demasiadas tentativas com este número. Tente mais tarde ou use outro número.
sign-in-try-later = De momento não conseguimos verificar números. Tente de novo dentro de um minuto.
sign-in-missing-country = Escolha o seu país ou comece o número com + e o indicativo do país.
sign-in-ended-title = Continue onde começou
sign-in-ended-text = Não há mais nada a fazer aqui. Volte ao navegador em que começou a iniciar sessão.
sign-in-cancelled-title = Início de sessão cancelado
sign-in-cancelled-text = Não iniciou sessão. Volte a { $brand } para tentar de novo.
sign-in-expired-title = Demorou demasiado tempo
sign-in-expired-text = Para sua segurança, tem de recomeçar. Volte a { $brand }.
sign-in-failed-text = Não conseguimos iniciar a sua sessão. Volte a { $brand } para tentar de novo.
sign-in-refused-title = Não é possível iniciar sessão
sign-in-refused-text = A aplicação ou o site que o trouxe aqui fez um pedido inválido. Volte atrás e tente de novo, ou peça ajuda ao respetivo apoio.
sign-in-detail = Detalhes para programadores
